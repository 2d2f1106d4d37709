"""The files of a typed table that the writers of a batch hand back. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from delta_store.entries.beside_entry import BesideFile


class TypedFiles(NamedTuple):
    """The files that one stream's messages became; durable, and in no commit yet."""

    stream: str
    rows: tuple[BesideFile, ...] = ()
    rejected: tuple[BesideFile, ...] = ()
    """Of the dead letters."""
    gone: tuple[str, ...] = ()
    """Of a table with one row a subject: the subjects whose last message is no row of it."""
    stale: bool = False
    """Whether the messages need other columns than the table has: then there are no files."""

    @classmethod
    def of(cls, fields: Iterable[Any]) -> "TypedFiles":
        """Return the value that was written as JSON."""
        stream, rows, rejected, gone, stale = fields
        return cls(stream, tuple(map(_file, rows)), tuple(map(_file, rejected)), tuple(gone), stale)


def _file(fields: Iterable[Any]) -> BesideFile:
    path, size, rows, checksum, stats, partition, modified_ms = fields
    return BesideFile(path, size, rows, checksum, stats, tuple((name, value) for name, value in partition), modified_ms)
