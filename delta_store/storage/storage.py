"""The interface to the journal's files: a local folder, or an object store. Storage does IO and decides nothing.

Invariant: when :meth:`Storage.publish` returns, file, log entry and the folders that name them are durable, and no one
else has written or will write an entry of that name. When it raises, ``StorageError.published`` says whether the entry
may be visible.

Names are relative to the journal's folder; those of the log start with ``_delta_log/``.
"""

from collections.abc import Iterable, Mapping
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


class Storage(Protocol):
    """A place for the journal's files."""

    uri: str
    """The location as delta-rs and Spark take it."""
    options: Mapping[str, str]
    """Storage options for delta-rs."""
    repeatable: bool
    """Whether an entry whose put had an unknown outcome may be put again to learn it.

    Not on a local disk: after a failed fsync what can be read need not be on the disk.
    """

    def prepare(self, probe_id: str) -> None:
        """Prepare for writing; raise :class:`UnsafeStore` for a store on which two writers could both win."""

    @property
    def has_room(self) -> bool:
        """Whether new groups may be decided; False when the disk is (nearly) full."""

    def publish(self, entry: Blob, data: Blob | None = None) -> None:
        """Make ``data`` durable, then ``entry`` if its name is free.

        Raises :class:`EntryExists`, :class:`StorageFull`, :class:`StorageFailed`.
        """

    def write(self, blob: Blob) -> None:
        """Create or replace a file as a whole, durably."""

    def read(self, name: str) -> bytes:
        """Return a file's content; raise :class:`NotStored`, :class:`StorageFailed`."""

    def exists(self, name: str) -> bool:
        """Whether the file exists."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of the files right inside ``folder`` (``""``: the journal's own), by their name in it."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files one after the other in this order; files that do not exist are skipped."""
