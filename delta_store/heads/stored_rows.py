"""Rows of ``heads`` and ``removed`` as they are stored, for their writer and for readers."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
from isal.isal_zlib import crc32

from delta_store.beside.beside_table import read_state, write_file
from delta_store.entries import beside_file, head_rows, removed_rows
from delta_store.entries.beside_entry import BesideFile
from delta_store.entries.head_rows import HeadRow
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import HEADS_FOLDER, HEADS_SCHEMA

write_heads: Final = partial(write_file, names=head_rows.STATISTICS, numbered=head_rows.NUMBERED)
"""Write rows of ``heads``, at least one, as a file that no commit has yet."""
write_removed: Final = partial(write_file, names=removed_rows.STATISTICS, numbered=removed_rows.NUMBERED)
"""The same for ``removed``."""
_TRIES: Final = 4
"""A file may be vacuumed away after the log was read."""


def table_beside(location: str, name: str) -> str:
    """Return the location of a table beside another one."""
    return f"{location.rstrip('/').rpartition('/')[0]}/{name}"


def read_rows(storage: Storage, files: Iterable[BesideFile], schema: pa.Schema) -> pa.Table:
    """Return the rows of files; raise :class:`DamagedData` for one that is not as it was written, ``NotStored``."""
    parts = [schema.empty_table()]
    for file in files:
        body, name = storage.read(file.path), f"{storage.uri.rstrip('/')}/{file.path}"
        if file.checksum is not None and crc32(body) != file.checksum:
            raise DamagedData(name, "its content does not match the checksum in its log entry")
        try:
            parts.append(beside_file.decode(body, schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DamagedData(name, str(error)) from error
    return pa.concat_tables(parts).combine_chunks()


def read_heads(location: str, options: Mapping[str, str] | None = None) -> list[HeadRow]:
    """Return all rows of ``heads`` beside the table at a location, in their order; empty without the table.

    Raises :class:`DamagedData`, ``StorageError``.
    """
    storage = open_storage(table_beside(location, HEADS_FOLDER), dict(options or {}))
    for left in reversed(range(_TRIES)):
        try:
            return head_rows.from_table(read_rows(storage, read_state(storage).files.values(), HEADS_SCHEMA))
        except NotStored as error:
            if not left:
                raise DamagedData(f"{storage.uri}/{error.name}", error.reason) from error
    raise AssertionError("unreachable")
