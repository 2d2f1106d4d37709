"""Typed tables as those read them who keep none: which there are, their columns, their newest rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from delta_store.beside.beside_table import read_state
from delta_store.beside.typed_table import KIND, SEQ, STREAM
from delta_store.entries import beside_file
from delta_store.entries.beside_entry import BesideState
from delta_store.storage.open_storage import open_storage
from delta_store.typed.column_types import Record, record_of
from delta_store.typed.table_columns import DAY, arrow_schema
from delta_store.typed.table_folders import TABLES_FOLDER, table_folder


class TypedTableRead(NamedTuple):
    """A table, or its dead letters, as its newest version has it."""

    folder: str
    """Below the data location."""
    location: str
    options: Mapping[str, str]
    state: BesideState

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self.state.properties[STREAM]

    @property
    def kind(self) -> str:
        """``append``, ``latest`` or ``dlq``."""
        return self.state.properties[KIND]

    @property
    def seq(self) -> int:
        """The last sequence that the table has taken in."""
        return self.state.txns.get(SEQ, 0)

    @property
    def columns(self) -> Record:
        """All columns."""
        return record_of(self.state.metadata["schemaString"])

    def newest(self, rows: int) -> pa.Table:
        """Return the last rows by sequence, ascending; raises what the storage and Arrow raise."""
        storage = open_storage(self.location, self.options)
        stored = Record(tuple(column for column in self.columns.columns if column.name != DAY))
        found = arrow_schema(stored).empty_table()
        for file in sorted(self.state.files.values(), key=lambda file: file.bounds("seq") or (0, 0), reverse=True):
            have = found["seq"].to_pylist()
            bounds = file.bounds("seq")
            if len(have) >= rows and bounds is not None and bounds[1] < have[-rows]:
                continue
            read = beside_file.decode(storage.read(file.path), arrow_schema(stored))
            found = pa.concat_tables([found, read]).sort_by("seq")
            found = found.slice(max(0, found.num_rows - rows))
        return found


def read_table(
    data: str, options: Mapping[str, str], stream: str, *, dead_letters: bool = False
) -> TypedTableRead | None:
    """Return a stream's table, None without one. Raises ``DamagedData`` and ``StorageError``."""
    return read_folder(data, options, table_folder(stream, dead_letters=dead_letters))


def read_tables(data: str, options: Mapping[str, str]) -> Iterator[TypedTableRead]:
    """Iterate over all typed tables at a data location, by folder. Raises as :func:`read_table`."""
    for folder in folders(data, options):
        found = read_folder(data, options, folder)
        if found is not None:
            yield found


def folders(data: str, options: Mapping[str, str]) -> list[str]:
    """Return the folders of all typed tables, below the data location."""
    there = {file.name.partition("/")[0] for file in open_storage(f"{data}/{TABLES_FOLDER}", options).walk()}
    return [f"{TABLES_FOLDER}/{name}" for name in sorted(there)]


def read_folder(data: str, options: Mapping[str, str], folder: str) -> TypedTableRead | None:
    """Return the table in a folder, None without one. Raises as :func:`read_table`."""
    location = f"{data}/{folder}"
    state = read_state(open_storage(location, options))
    return TypedTableRead(folder, location, options, state) if STREAM in state.properties else None
