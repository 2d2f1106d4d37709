"""A Delta checkpoint of the journal's log, encoded from the state in memory and decoded. Pure.

Ours and not delta-rs's: it costs the number of live files, not the length of the log since the last one, and it can be
fsynced and checksummed like all else (``_last_checkpoint`` carries the CRC-32 of the file in its ``tags``).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import (
    COUNTER_BITS,
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

LAST_CHECKPOINT: Final = "_last_checkpoint"
_SUFFIX: Final = ".checkpoint.parquet"
_CHUNK: Final = 128
"""Actions that are converted to Arrow at once: the interpreter lock is held for so long."""
_REMOVES: Final = 2_048
"""The same for removed files, which cost less."""
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_SCHEMA: Final = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": _TEXTS,
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
    }
)


class DamagedCheckpoint(ValueError):
    """The bytes are not those of a checkpoint as it was written; the text gives the reason."""


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


def checkpoint_name(version: int) -> str:
    """Return the name of a version's checkpoint inside the log folder."""
    return f"{version:020d}{_SUFFIX}"


def checkpoint_version(name: str) -> int | None:
    """Return the version of a checkpoint's name; None for any other file of the log folder."""
    digits = name.removesuffix(_SUFFIX)
    return int(digits) if name.endswith(_SUFFIX) and len(digits) == 20 and digits.isdecimal() else None


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
    tables = [_table(actions[at : at + _CHUNK]) for at in range(0, len(actions), _CHUNK)]
    tables += [_removes(snapshot.removed[at : at + _REMOVES]) for at in range(0, len(snapshot.removed), _REMOVES)]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.concat_tables(tables),
        sink,
        compression="zstd",
        write_page_checksum=True,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def _table(actions: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([_with_maps(action) for action in actions], schema=_SCHEMA)


def _removes(removed: Sequence[Removed]) -> pa.Table:
    """Build the ``remove`` actions by columns: a minute's removed files may be tens of thousands."""
    number, fields = len(removed), _SCHEMA.field("remove").type
    shared = _with_maps(remove_action(removed[0]))
    own = {
        "path": [one.name for one in removed],
        "size": [one.size for one in removed],
        "deletionTimestamp": [one.at_ms for one in removed],
    }
    columns = [
        pa.array(own[field.name], field.type)
        if field.name in own
        else pa.repeat(pa.scalar(shared[field.name], field.type), number)
        for field in fields
    ]
    whole = pa.StructArray.from_arrays(columns, fields=list(fields))
    return pa.table(
        [whole if field.name == "remove" else pa.nulls(number, field.type) for field in _SCHEMA], schema=_SCHEMA
    )


def pointer(snapshot: JournalSnapshot, body: bytes) -> bytes:
    """Return the content of ``_last_checkpoint`` for a checkpoint."""
    size = 3 + (snapshot.relies_on is not None) + len(snapshot.live) + len(snapshot.removed)
    content = {
        "version": snapshot.version,
        "size": size,
        "sizeInBytes": len(body),
        "numOfAddFiles": len(snapshot.live),
        "tags": {"silt.crc": f"{crc32(body):08x}"},
    }
    return json.dumps(content, separators=(",", ":")).encode()


def pointed(raw: bytes) -> tuple[int, str] | None:
    """Return version and checksum of ``_last_checkpoint``; None when it can't be read: it is only a hint."""
    try:
        content = json.loads(raw)
        return int(content["version"]), str(content["tags"]["silt.crc"])
    except (ValueError, KeyError, TypeError):
        return None


def decode(version: int, body: bytes, *, app_id: str, checksum: str | None) -> JournalState:
    """Return the state at a checkpoint; raise :class:`DamagedCheckpoint`."""
    if checksum is not None and f"{crc32(body):08x}" != checksum:
        raise DamagedCheckpoint("its content does not match its checksum")
    try:
        with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
            rows = file.read().to_pylist()
        return _fold(version, rows, app_id)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"not a checkpoint of this journal: {error}") from error


def _fold(version: int, rows: list[dict[str, Any]], app_id: str) -> JournalState:
    state = JournalState()
    state.version = version
    [metadata] = [row["metaData"] for row in rows if row["metaData"]]
    txn, state.relies_on = split_txns([row["txn"] for row in rows if row["txn"]], app_id)
    if txn["appId"] != app_id:
        raise ValueError(f"written by {txn['appId']!r}, this journal belongs to {app_id!r}")
    state.metadata = metadata | {
        "configuration": dict(metadata["configuration"]),
        "format": {"provider": metadata["format"]["provider"], "options": dict(metadata["format"]["options"])},
    }
    state.stamp = Stamp(txn["version"] >> COUNTER_BITS, txn["version"] & ((1 << COUNTER_BITS) - 1))
    state.timestamp_ms = txn["lastUpdated"]
    for file in sorted((file_of(row["add"]) for row in rows if row["add"]), key=lambda file: file.version):
        state.add(file)
    for row in rows:
        if row["remove"]:
            removed = removed_of(row["remove"])
            state.removed[removed.name] = removed
    return state


def _with_maps(value: Any, name: str = "") -> Any:
    """Convert maps to lists of pairs, as Arrow takes them."""
    if not isinstance(value, Mapping):
        return value
    if name in {"partitionValues", "tags", "configuration", "options"}:
        return list(value.items())
    return {key: _with_maps(inner, key) for key, inner in value.items()}
