"""The interface to a table's files: a local folder, or an object store. Storage does IO and decides nothing.

Invariant: when :meth:`Storage.publish` returns, file, log entry and the folders that name them are durable, and no one
else has written or will write an entry of that name. When it raises, ``StorageError.published`` says whether the entry
may be visible.

Names are relative to the table's folder; those of the log start with ``_delta_log/``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa


class Blob(NamedTuple):
    """A file to write."""

    name: str
    body: bytes | pa.Buffer
    more: tuple[bytes, ...] = ()
    """Parts behind the body: large values, which are not copied into it."""

    @property
    def whole(self) -> bytes | pa.Buffer:
        """The content in one piece."""
        return b"".join((self.body, *self.more)) if self.more else self.body

    @property
    def size(self) -> int:
        """The content's bytes."""
        return len(self.body) + sum(map(len, self.more))


class Stored(NamedTuple):
    """A file that is there."""

    name: str
    size: int
    """Bytes."""
    modified_ms: int
    """When it was written, by the storage's clock."""


class Storage(Protocol):
    """A place for a table's files."""

    uri: str
    """The location as delta-rs and Spark take it."""
    options: Mapping[str, str]
    """Storage options for delta-rs."""
    repeatable: bool
    """Whether an entry whose put had an unknown outcome may be put again to learn it.

    Not on a local disk: after a failed fsync what can be read need not be on the disk.
    """

    def prepare(self, probe_id: str) -> None:
        """Prepare for commits; raise :class:`UnsafeStore` for a store on which two writers could both win."""

    def set_aside(self) -> None:
        """Set space aside, so that commits are possible for a while when the disk is full."""

    @property
    def has_room(self) -> bool:
        """Whether new groups may be decided; False when the disk is (nearly) full."""

    def publish(self, entry: Blob, data: Blob | None = None) -> None:
        """Make ``data`` durable, then ``entry`` if its name is free.

        Raises :class:`EntryExists`, :class:`StorageFull`, :class:`StorageFailed`.
        """

    def write(self, blob: Blob) -> None:
        """Create or replace a file as a whole, durably, with the folders that it is in."""

    def write_behind(self, source: str, more: Blob) -> None:
        """Write a file as :meth:`write` does: the bytes of another one of the table, and behind them those of ``more``.

        Where a file system can share blocks between files, the other one's are not copied. Raises :class:`NotStored`.
        """

    def read(self, name: str) -> bytes:
        """Return a file's content; raise :class:`NotStored`, :class:`StorageFailed`."""

    def exists(self, name: str) -> bool:
        """Whether the file exists."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of the files right inside ``folder`` (``""``: the table's own), by their name in it."""

    def walk(self) -> Iterator[Stored]:
        """Iterate over all files of the table at any depth, except those of its log."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, those of the log one after the other in this order; files that do not exist are skipped."""
