"""The journal as a source of Structured Streaming, read by Silt's own reader of its log.

An offset is a version of the journal; a batch holds the files of the commits behind it. A commit of a few messages is a
file of its own, so the cost is by file: Spark's Delta source reads each log entry twice and opens each file in 2 ms, of
code that has yet to be compiled in the first minute; this takes a fifth, from the first batch on. Invariant: each entry
and each file is verified by its checksum before its rows are a batch's.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from conf.limits import STAGED_BYTES
from delta_store.entries.journal_file import DamagedFile, decode_table
from delta_store.entries.log_entry import JournalFile
from delta_store.log.followed_journal import FollowedJournal
from delta_store.storage.open_storage import open_storage
from delta_store.storage.read_many import each
from delta_store.storage.storage import Storage
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_DDL, JOURNAL_SCHEMA

FORMAT: Final = "silt_journal"
_READ_BYTES: Final = STAGED_BYTES // 4
"""Bytes of files that are handed over together."""
_READS_AT_ONCE: Final = 8
"""Files of an object store: up to 8 MiB each, mostly a few KB, and twenty a second."""


class JournalFiles(InputPartition):
    """Files of the journal: path, bytes and checksum of each, in commit order."""

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
        """Return the journal's columns."""
        return JOURNAL_DDL

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
        size = 0
        for number, file in enumerate(self._files_behind(self._at, refresh=True)):
            size += file.size
            if number and (number >= self._files_max or size > self._bytes_max):
                break
            self._at = file.version
        return {"version": self._at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[JournalFiles]:
        """Return the files of one batch, for one task."""
        behind = self._files_behind(start["version"])
        files = [file for file in behind if file.version <= end["version"]]
        return [JournalFiles([(file.name, file.size, file.checksum) for file in files])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a batch. Raises ``DamagedData``, ``StorageError``."""
        assert isinstance(partition, JournalFiles)
        storage = _storage(self._path, tuple(sorted(self._storage_options.items())))
        tables: list[pa.Table] = []
        size = 0
        bodies = each(self._path, storage.read, [name for name, *_ in partition.files], at_once=_READS_AT_ONCE)
        for (name, length, checksum), body in zip(partition.files, bodies, strict=True):
            try:
                tables.append(decode_table(body, size=length, checksum=checksum))
            except DamagedFile as error:
                raise DamagedData(f"{self._path}/{name}", str(error)) from error
            size += length
            if size >= _READ_BYTES:
                yield from _batches(tables)
                tables, size = [], 0
        if tables:
            yield from _batches(tables)

    def __getstate__(self) -> dict[str, Any]:
        """Go to the executors without the journal's log."""
        return {**self.__dict__, "_journal": FollowedJournal(self._path, self._storage_options)}

    def _files_behind(self, version: int, *, refresh: bool = False) -> list[JournalFile]:
        journal = self._journal.newest() if refresh else self._journal.known()
        return [file for file in journal.live_files() if file.version > version]


def _batches(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from pa.concat_tables(tables).cast(JOURNAL_SCHEMA).combine_chunks().to_batches()


@lru_cache(maxsize=4)
def _storage(path: str, options: tuple[tuple[str, str], ...]) -> Storage:
    return open_storage(path, dict(options))
