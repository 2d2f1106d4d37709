"""The journal as a Spark stream; opened anew at each start, from the first unsettled rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from conf.limits import SETTLE_BATCH_BYTES, SETTLE_FILES_PER_BATCH
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import JournalEntry
from delta_store.log.delta_log import DeltaLog, Listing
from delta_store.log.journal_log import log_of
from delta_store.log.journal_reader import SHARD, app_id_of
from delta_store.reading.journal_tail import JournalTail
from delta_store.settling.journal_start import all_settled, starting_version
from delta_store.storage.open_storage import open_storage
from delta_store.values.watermark import Watermarks

_ALL = 2**31 - 1


@dataclass(frozen=True)
class JournalCheck:
    """A check of the journal's log, which goes on where it last ended; sent elsewhere, it begins anew."""

    path: str
    options: Mapping[str, str]

    def __reduce__(self) -> tuple[Any, ...]:
        return JournalCheck, (self.path, dict(self.options))

    def check(self) -> None:
        """Raise ``DamagedData`` unless the log is whole up to its end: Spark itself would read past damage."""
        self._log.refresh()

    @cached_property
    def _log(self) -> JournalTail:
        return JournalTail(self.path, storage_options=self.options)


class JournalSource:
    """A reader of the journal at ``path``, a folder or a URL with delta-rs's storage options."""

    def __init__(self, spark: SparkSession, path: str, *, options: Mapping[str, str] | None = None) -> None:
        self.spark = spark
        self.path = path
        self._storage = open_storage(path, options)
        self.checking = JournalCheck(path, options or {})

    def exists(self) -> bool:
        """Whether a gateway has made the journal."""
        return self._listed()[1].last >= 0

    def is_settled(self, watermarks: Watermarks) -> bool:
        """Whether no row above the watermarks is there."""
        log, listing = self._listed()
        return not listing.versions or all_settled(log.entry, listing.last, listing.versions[0], watermarks)

    def stream(self, watermarks: Watermarks) -> DataFrame:
        """Read the journal from the first commit with rows above the watermarks, in commit order."""
        reader = self.spark.readStream.format("delta").option("maxBytesPerTrigger", SETTLE_BATCH_BYTES)
        start = self._start(watermarks)
        if start is None:  # one batch: a snapshot's files come in no order that settling could rely on
            return reader.option("maxFilesPerTrigger", _ALL).option("maxBytesPerTrigger", 2**62).load(self.path)
        reader = reader.option("startingVersion", start)
        return reader.option("maxFilesPerTrigger", SETTLE_FILES_PER_BATCH).load(self.path)

    def _start(self, watermarks: Watermarks) -> int | None:
        log, listing = self._listed()
        return starting_version(log.entry, listing.versions[0], listing.last, watermarks)

    def _listed(self) -> tuple[DeltaLog[JournalEntry, JournalState], Listing]:
        log = log_of(self._storage, app_id_of(SHARD))
        return log, log.listed()
