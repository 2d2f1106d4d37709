"""The journal as the settle job's source; its position is found by the watermarks at each start."""

import json
import sys
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from conf.limits import SETTLE_BATCH_BYTES, SETTLE_FILES_PER_BATCH, SETTLE_FILES_PER_QUERY
from delta_store.entries.log_entry import JournalFile
from delta_store.log.followed_journal import FollowedJournal
from delta_store.settling.journal_rows import files_as_rows
from delta_store.settling.journal_stream import FORMAT, JournalStream, named, of_one_batch
from delta_store.values.records import Position
from delta_store.values.watermark import Watermarks, is_settled

_NO_BOUND: Final = sys.maxsize


class JournalSource:
    """A reader of the journal at ``path``, a folder or a URL with delta-rs's storage options."""

    def __init__(self, spark: SparkSession, path: str, *, options: Mapping[str, str] | None = None) -> None:
        self.spark = spark
        self.path = path
        self._options = dict(options or {})
        self._journal = FollowedJournal(path, self._options)

    def newest(self) -> int:
        """Return the newest version of the journal; -1 before a gateway has made it. Raises ``DamagedData``."""
        return self._journal.newest().version

    def is_settled(self, watermarks: Watermarks, *, up_to: int = _NO_BOUND) -> bool:
        """Whether no row above the watermarks is there, in commits up to a version."""
        first = self._first_unsettled(watermarks)
        return first is None or first.version > up_to

    def unsettled_since_ms(self, watermarks: Watermarks) -> int | None:
        """Return when the first commit with rows above the watermarks was made, in ms since 1970; None without one."""
        first = self._first_unsettled(watermarks)
        return None if first is None else first.modified_ms

    def stream(self, watermarks: Watermarks, *, ends: bool) -> DataFrame:
        """Read the journal from the first commit with rows above the watermarks, in commit order.

        A query that ``ends`` makes one batch of many files. Raises ``DamagedData``.
        """
        self.spark.dataSource.register(JournalStream)
        options = self.reader_options(watermarks, ends=ends)
        return self.spark.readStream.format(FORMAT).options(**options).load()

    def next_files(self, watermarks: Watermarks) -> DataFrame | None:
        """Return the files of one batch without a query, from the first rows above the watermarks on; None without any.

        Raises ``DamagedData``.
        """
        first = self._first_unsettled(watermarks)
        if first is None:
            return None
        behind = (file for file in self._journal.known().live_files() if file.version >= first.version)
        files = of_one_batch(behind, SETTLE_FILES_PER_BATCH, SETTLE_BATCH_BYTES)
        return self.spark.createDataFrame(pa.Table.from_batches([files_as_rows(named(files))]))

    def reader_options(self, watermarks: Watermarks, *, ends: bool) -> dict[str, str]:
        """Return the options of :class:`JournalStream` for a query that begins behind the watermarks."""
        first = self._first_unsettled(watermarks)
        after = self._journal.newest().version if first is None else first.version - 1
        factor = SETTLE_FILES_PER_QUERY // SETTLE_FILES_PER_BATCH if ends else 1
        return {
            "path": self.path,
            "secret_storage": json.dumps(self._options),
            "after": str(after),
            "files_max": str(SETTLE_FILES_PER_BATCH * factor),
            "bytes_max": str(SETTLE_BATCH_BYTES * factor),
        }

    def _first_unsettled(self, watermarks: Watermarks) -> JournalFile | None:
        return next((file for file in self._journal.newest().live_files() if not _all_settled(file, watermarks)), None)


def _all_settled(file: JournalFile, watermarks: Watermarks) -> bool:
    return all(
        is_settled(Position(span.stream_id, span.last_seq, span.last_event), watermarks.get(span.stream))
        for span in file.spans
    )
