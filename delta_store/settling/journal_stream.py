"""The journal's files as a source of Structured Streaming, read by Silt's own reader of its log.

An offset is a version of the journal; a batch holds the files of the commits behind it, by name: who writes their rows
reads them (``journal_rows``). A commit of a few messages is a file of its own, so the cost is by file: Spark's Delta
source reads each log entry twice and opens each file in 2 ms, of code that has yet to be compiled in the first minute;
this takes a fifth, from the first batch on. Invariant: each log entry is verified before its files are a batch's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from delta_store.entries.log_entry import JournalFile
from delta_store.log.followed_journal import FollowedJournal
from delta_store.settling.journal_rows import FILES_DDL, files_as_rows

FORMAT: Final = "silt_journal"


class JournalFiles(InputPartition):
    """Files of the journal as rows of :data:`FILES_SCHEMA`, in commit order."""

    def __init__(self, files: list[tuple[str, int, int]]) -> None:
        self.files = files


class JournalStream(DataSource):
    """``format("silt_journal")``, by options path, secret_storage (JSON), after (version), files_max and bytes_max.

    The name of the second lets Spark redact it.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a file."""
        return FILES_DDL

    def streamReader(self, schema: StructType) -> "JournalStreamReader":  # noqa: N802  # Spark's name
        """Return the reader of a query."""
        del schema
        return JournalStreamReader(self.options)


class JournalStreamReader(DataSourceStreamReader):
    """Plans batches; each :meth:`latestOffset` goes on where the one before ended, by at most a batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = options["path"]
        self._storage_options: dict[str, str] = json.loads(options["secret_storage"])
        self._after = self._at = int(options["after"])
        self._files_max = int(options["files_max"])
        self._bytes_max = int(options["bytes_max"])
        self._journal = FollowedJournal(self._path, self._storage_options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the version behind which the first batch begins."""
        return {"version": self._after}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the version at which the next batch ends. Raises ``DamagedData``, ``StorageError``."""
        files = of_one_batch(self._files_behind(self._at, refresh=True), self._files_max, self._bytes_max)
        self._at = max((file.version for file in files), default=self._at)
        return {"version": self._at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[JournalFiles]:
        """Return the files of one batch, for one task."""
        behind = self._files_behind(start["version"])
        return [JournalFiles(named(file for file in behind if file.version <= end["version"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the files of a batch."""
        assert isinstance(partition, JournalFiles)
        yield files_as_rows(partition.files)

    def __getstate__(self) -> dict[str, Any]:
        """Go to the executors without the journal's log."""
        return {**self.__dict__, "_journal": FollowedJournal(self._path, self._storage_options)}

    def _files_behind(self, version: int, *, refresh: bool = False) -> list[JournalFile]:
        journal = self._journal.newest() if refresh else self._journal.known()
        return [file for file in journal.live_files() if file.version > version]


def of_one_batch(files: Iterable[JournalFile], files_max: int, bytes_max: int) -> list[JournalFile]:
    """Return the first files that one batch may hold, at least one where there is one."""
    chosen: list[JournalFile] = []
    size = 0
    for file in files:
        size += file.size
        if chosen and (len(chosen) >= files_max or size > bytes_max):
            break
        chosen.append(file)
    return chosen


def named(files: Iterable[JournalFile]) -> list[tuple[str, int, int]]:
    """Return files as rows of :data:`~delta_store.settling.journal_rows.FILES_SCHEMA`."""
    return [(file.name, file.size, file.checksum) for file in files]
