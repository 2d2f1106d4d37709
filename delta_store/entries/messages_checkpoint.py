"""A checkpoint of the log of ``messages``: encoded by its owner, decoded whoever wrote it. Pure.

It holds no watermarks: those are in the note of the newest commit, whose entry log cleanup keeps. Files that left the
table have a path and a time alone, as Delta allows: there may be many.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from delta_store.entries import checkpoint_table
from delta_store.entries.checkpoint_table import DamagedCheckpoint, metadata_of
from delta_store.entries.log_entry import Removed, Stamp, protocol_action
from delta_store.entries.messages_state import MessagesState
from delta_store.entries.settled_entry import APP_ID, TableFile, check_protocol, file_of, partition_of, url_of
from delta_store.entries.settled_log import Snapshot, file_added, path_of

_FILES: Final = [f"add.{name}" for name in ("path", "partitionValues", "size", "stats", "tags")]
_COLUMNS: Final = [
    *_FILES,
    "add.modificationTime",
    "remove.path",
    "remove.deletionTimestamp",
    "remove.size",
    "metaData",
    "protocol",
    "txn",
]
_MAPS: Final = {"partitionValues", "tags"}


class MessagesSnapshot(NamedTuple):
    """An immutable copy of a :class:`MessagesState`, to build a checkpoint from."""

    version: int
    metadata: Mapping[str, Any]
    txns: tuple[Mapping[str, Any], ...]
    live: tuple[TableFile, ...]
    removed: tuple[Removed, ...]


def snapshot_of(state: MessagesState) -> MessagesSnapshot:
    """Copy a state."""
    return MessagesSnapshot(
        state.version,
        state.metadata,
        tuple(state.txns.values()),
        tuple(state.live.values()),
        tuple(state.removed.values()),
    )


def encode(snapshot: MessagesSnapshot) -> bytes:
    """Encode the checkpoint as a Parquet file."""
    head: list[dict[str, Any]] = [{"protocol": protocol_action()}, {"metaData": snapshot.metadata}]
    head += [{"txn": txn} for txn in snapshot.txns]
    live, removed = snapshot.live, snapshot.removed
    added: dict[str, Sequence[Any]] = {
        "path": [file.url for file in live],
        "partitionValues": [list(partition_of(file).items()) for file in live],
        "size": [file.size for file in live],
        "modificationTime": [file.modified_ms for file in live],
        "stats": [file.stats for file in live],
        "tags": [None if file.tags is None else list(file.tags.items()) for file in live],
    }
    gone: dict[str, Sequence[Any]] = {
        "path": [url_of(one.name) for one in removed],
        "deletionTimestamp": [one.at_ms for one in removed],
    }
    parts = checkpoint_table.by_rows(head)
    parts += checkpoint_table.by_columns("add", {"dataChange": False}, added, len(live))
    shared = {"dataChange": False, "extendedFileMetadata": False}
    parts += checkpoint_table.by_columns("remove", shared, gone, len(removed))
    return checkpoint_table.encode(parts)


def encode_files(snapshot: MessagesSnapshot) -> bytes:
    """Encode the live files alone: all that a reader wants of a checkpoint, most of which is files that have left."""
    return encode(snapshot._replace(removed=()))


def pointer(snapshot: MessagesSnapshot, body: bytes) -> bytes:
    """Return the content of ``_last_checkpoint`` for a checkpoint."""
    size = 2 + len(snapshot.txns) + len(snapshot.live) + len(snapshot.removed)
    return checkpoint_table.pointer(snapshot.version, body, actions=size, files=len(snapshot.live))


def decode(version: int, body: bytes, *, checksum: str | None) -> MessagesState:
    """Return the state at a checkpoint, without its note; raise :class:`DamagedCheckpoint`."""
    table = checkpoint_table.decode(body, checksum=checksum, columns=_COLUMNS)
    try:
        return _fold(version, table)
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"not a checkpoint of this table: {error}") from error


def read_files(version: int, body: bytes, *, checksum: str | None) -> Snapshot:
    """Return a version's files by its checkpoint, which has no watermarks; raise :class:`DamagedCheckpoint`."""
    table = checkpoint_table.decode(body, checksum=checksum, columns=_FILES)
    try:
        files = [file_added(add) for add in _actions(table, "add")]
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"not a checkpoint of this table: {error}") from error
    return Snapshot(version, {file.path: file for file in files}, {})


def _fold(version: int, table: pa.Table) -> MessagesState:
    for protocol in _actions(table, "protocol"):
        check_protocol(protocol)
    adds = list(_actions(table, "add"))
    files = map(file_added, adds)
    state = MessagesState(Snapshot(version, {file.path: file for file in files}, {}))
    [metadata] = _actions(table, "metaData")
    state.metadata = metadata_of(metadata)
    state.txns = {txn["appId"]: txn for txn in _actions(table, "txn")}
    if APP_ID in state.txns:
        state.stamp = Stamp.of(state.txns[APP_ID]["version"])
    state.live = {path_of(add["path"]): file_of(add) for add in adds}
    gone = [
        Removed(path_of(one["path"]), one.get("size") or 0, one["deletionTimestamp"] or 0)
        for one in _actions(table, "remove")
    ]
    state.removed = {one.name: one for one in gone}
    return state


def _actions(table: pa.Table, name: str) -> Iterator[dict[str, Any]]:
    """Iterate over the actions of a kind; partition values and tags as mappings."""
    for action in table[name].drop_null().to_pylist():
        for field in _MAPS & action.keys():
            action[field] = None if action[field] is None else dict(action[field])
        yield action
