"""A checkpoint of the journal's log, encoded from the state in memory and decoded. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from delta_store.entries import checkpoint_table
from delta_store.entries.checkpoint_table import DamagedCheckpoint, metadata_of
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import (
    JournalFile,
    Removed,
    Stamp,
    add_action,
    file_of,
    protocol_action,
    relies_on_action,
    remove_action,
    removed_of,
    split_txns,
    txn_action,
)


class JournalSnapshot(NamedTuple):
    """An immutable copy of a :class:`JournalState`, to build a checkpoint from."""

    version: int
    stamp: Stamp
    timestamp_ms: int
    metadata: Mapping[str, Any]
    live: tuple[JournalFile, ...]
    removed: tuple[Removed, ...]
    relies_on: int | None = None
    """As in :class:`JournalState`."""


def snapshot_of(state: JournalState) -> JournalSnapshot:
    """Copy a state."""
    return JournalSnapshot(
        state.version,
        state.stamp,
        state.timestamp_ms,
        state.metadata,
        tuple(state.live.values()),
        tuple(state.removed.values()),
        state.relies_on,
    )


def encode(snapshot: JournalSnapshot, app_id: str) -> bytes:
    """Encode the checkpoint as a Parquet file."""
    actions: list[dict[str, Any]] = [
        {"protocol": protocol_action()},
        {"metaData": snapshot.metadata},
        {"txn": txn_action(app_id, snapshot.stamp, snapshot.timestamp_ms)},
    ]
    if snapshot.relies_on is not None:
        actions.append({"txn": relies_on_action(app_id, snapshot.relies_on, snapshot.timestamp_ms)})
    actions += [{"add": add_action(file, data_change=False)} for file in snapshot.live]
    parts = checkpoint_table.by_rows(actions)
    if snapshot.removed:
        own: dict[str, Sequence[Any]] = {
            "path": [one.name for one in snapshot.removed],
            "size": [one.size for one in snapshot.removed],
            "deletionTimestamp": [one.at_ms for one in snapshot.removed],
        }
        shared = remove_action(snapshot.removed[0])
        parts += checkpoint_table.by_columns("remove", shared, own, len(snapshot.removed))
    return checkpoint_table.encode(parts)


def pointer(snapshot: JournalSnapshot, body: bytes) -> bytes:
    """Return the content of ``_last_checkpoint`` for a checkpoint."""
    size = 3 + (snapshot.relies_on is not None) + len(snapshot.live) + len(snapshot.removed)
    return checkpoint_table.pointer(snapshot.version, body, actions=size, files=len(snapshot.live))


def decode(version: int, body: bytes, *, app_id: str, checksum: str | None) -> JournalState:
    """Return the state at a checkpoint; raise :class:`DamagedCheckpoint`."""
    table = checkpoint_table.decode(body, checksum=checksum)
    try:
        return _fold(version, table.to_pylist(), app_id)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"not a checkpoint of this journal: {error}") from error


def _fold(version: int, rows: list[dict[str, Any]], app_id: str) -> JournalState:
    state = JournalState()
    state.version = version
    [metadata] = [row["metaData"] for row in rows if row["metaData"]]
    txn, state.relies_on = split_txns([row["txn"] for row in rows if row["txn"]], app_id)
    if txn["appId"] != app_id:
        raise ValueError(f"written by {txn['appId']!r}, this journal belongs to {app_id!r}")
    state.metadata = metadata_of(metadata)
    state.stamp = Stamp.of(txn["version"])
    state.timestamp_ms = txn["lastUpdated"]
    for file in sorted((file_of(row["add"]) for row in rows if row["add"]), key=lambda file: file.version):
        state.add(file)
    for row in rows:
        if row["remove"]:
            removed = removed_of(row["remove"])
            state.removed[removed.name] = removed
    return state
