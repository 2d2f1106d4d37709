"""The state of a stream as nats-server's file store writes it (``msgs/index.db``): its bounds and what is deleted.

Source: ``writeFullState`` and ``recoverFullState`` in server/filestore.go, versions 1 to 4.
"""

from typing import Final, NamedTuple

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.highway_hash import HASH_BYTES
from delta_store.archive.sequence_set import SequenceSet, joined_sets, read_set
from delta_store.archive.varints import VarintReader

_MAGIC, _VERSION_MAX = 11, 4
_FAULT: Final = "index.db: it is cut or damaged"


class StoredState(NamedTuple):
    """The state of a stream."""

    messages: int
    first_seq: int
    last_seq: int
    deleted: SequenceSet
    """Deleted sequences between."""
    last_block: int
    last_hash: bytes
    """The hash of the last record of the block ``last_block`` at the time."""


def decode(content: bytes) -> StoredState:
    """Decode the state; a hash ends it. Raises :class:`BadArchive`."""
    if len(content) < 2 + 2 * HASH_BYTES or content[0] != _MAGIC or not 1 <= content[1] <= _VERSION_MAX:
        raise BadArchive(f"index.db: not the state of a stream, or of a version above {_VERSION_MAX}")
    version = content[1]
    reader = VarintReader(content[:-HASH_BYTES], 2, _FAULT)
    messages, _, first_seq = reader.unsigned(), reader.unsigned(), reader.unsigned()
    reader.unsigned()
    last_seq = reader.unsigned()
    reader.unsigned()
    for _ in range(reader.unsigned()):
        _skip_subject(reader, version)
    deleted = []
    for _ in range(reader.unsigned()):
        for _ in range(6):
            reader.unsigned()
        number = reader.unsigned()
        for _ in range(min(version, 3) - 1):
            reader.unsigned()
        if number:
            deleted.append(read_set(reader, _FAULT))
    block = reader.unsigned()
    last_hash = reader.take(HASH_BYTES)
    return StoredState(messages, first_seq, last_seq, joined_sets(deleted), block, last_hash)


def _skip_subject(reader: VarintReader, version: int) -> None:
    size = reader.unsigned()
    if not size:
        return
    reader.take(size)
    total = reader.unsigned()
    reader.unsigned()
    if total > 1 or version >= 4:
        reader.unsigned()
