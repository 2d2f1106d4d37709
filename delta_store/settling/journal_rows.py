"""The function that executors run on names of the journal's files: verified rows out, in commit order.

The files' rows never pass through the JVM on their way into ``messages``: the task that reads them writes them. Only a
batch that has to be sifted hands them to Spark. Invariant: each file is verified by its checksum before its rows are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from delta_store.entries.journal_file import DamagedFile, decode_table
from delta_store.storage.open_storage import open_storage
from delta_store.storage.read_many import each
from delta_store.storage.storage import Storage
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_DDL, JOURNAL_SCHEMA

FILES_SCHEMA: Final = pa.schema([("name", pa.string()), ("size", pa.int64()), ("checksum", pa.int64())])
"""A file's path in the table, its bytes, and their CRC-32."""
FILES_DDL: Final = "name STRING, size BIGINT, checksum BIGINT"
_READS_AT_ONCE: Final = 8
"""Files of an object store: up to 8 MiB each, mostly a few KB, and twenty a second."""


def files_as_rows(files: Sequence[tuple[str, int, int]]) -> pa.RecordBatch:
    """Return names, sizes and checksums of files as rows of :data:`FILES_SCHEMA`."""
    columns = zip(*files, strict=True) if files else ((),) * len(FILES_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FILES_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FILES_SCHEMA)


class JournalRows(NamedTuple):
    """Reads files of the journal; a value, which goes to the executors with the task."""

    path: str
    options: Mapping[str, str]

    def of(self, files: DataFrame) -> DataFrame:
        """Return the rows of files as Spark's."""
        read: Any = self
        return files.mapInArrow(read, JOURNAL_DDL)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of files, which are rows of :data:`FILES_SCHEMA`.

        Raises ``DamagedData``, ``StorageError``.
        """
        files = [tuple(file.values()) for batch in batches for file in batch.to_pylist()]
        storage = _storage(self.path, tuple(sorted(self.options.items())))
        bodies = each(self.path, storage.read, [name for name, *_ in files], at_once=_READS_AT_ONCE)
        for (name, length, checksum), body in zip(files, bodies, strict=True):
            try:
                table = decode_table(body, size=length, checksum=checksum)
            except DamagedFile as error:
                raise DamagedData(f"{self.path}/{name}", str(error)) from error
            yield from (table if table.schema == JOURNAL_SCHEMA else table.cast(JOURNAL_SCHEMA)).to_batches()


@lru_cache(maxsize=4)
def _storage(path: str, options: tuple[tuple[str, str], ...]) -> Storage:
    return open_storage(path, dict(options))
