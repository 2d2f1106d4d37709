"""The log of a table beside ``messages`` as bytes, and its state at a version: files, metadata, transactions. Pure.

Such a table is made of what ``messages`` holds, so it can always be made again. It may have any columns and any
partitions, both may change, and a commit may add and remove files at once. How far it has come is in ``txn`` actions of
its own, so a commit of files moves them along, or neither happens. Entries and checkpoints are sealed as those of
``messages`` (:mod:`delta_store.entries.entry_seal`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from delta_store.entries import checkpoint_table, entry_seal
from delta_store.entries.checkpoint_table import DamagedCheckpoint, metadata_of
from delta_store.entries.entry_seal import ENGINE, NO_CRC, seal
from delta_store.entries.log_entry import Removed, protocol_action
from delta_store.entries.settled_entry import check_protocol, url_of
from delta_store.entries.settled_log import CRC_TAG, path_of
from delta_store.values.read_errors import DamagedData

APP_ID: Final = "silt-settle"
"""The ``txn`` action with the epoch of the owner of ``messages`` who committed."""


class BesideFile(NamedTuple):
    """A data file, durable in the table's folder."""

    path: str
    """Relative to the table, decoded."""
    size: int
    """Bytes."""
    rows: int
    checksum: int | None
    """CRC-32 of the file's bytes."""
    stats: str
    """Delta's statistics as JSON: of all columns that the table names as having them, in every file."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """Columns and their values as Delta writes them."""
    modified_ms: int = 0
    """When it was committed."""

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """Return a column's lowest and highest value; None without statistics of it."""
        said = json.loads(self.stats)
        low, high = said["minValues"].get(column), said["maxValues"].get(column)
        return None if low is None or high is None else (low, high)


class NewTable(NamedTuple):
    """The terms on which a table is made."""

    name: str
    schema: str
    """Delta's ``schemaString``."""
    statistics: Sequence[str]
    """Columns with statistics."""
    partition_columns: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    """Kept in the table's ``configuration``."""

    def metadata(self, table_id: str, created_ms: int, horizon_seconds: float) -> dict[str, Any]:
        """Return the ``metaData`` action. Log cleanup is Silt's alone: another engine's would go by age."""
        horizon = f"interval {int(horizon_seconds)} seconds"
        fixed = {
            "delta.enableDeletionVectors": "false",
            "delta.enableChangeDataFeed": "false",
            "delta.enableExpiredLogCleanup": "false",
            "delta.dataSkippingStatsColumns": ",".join(self.statistics),
            "delta.logRetentionDuration": horizon,
            "delta.deletedFileRetentionDuration": horizon,
        }
        return {
            "id": table_id,
            "name": self.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema,
            "partitionColumns": list(self.partition_columns),
            "configuration": {**fixed, **self.properties},
            "createdTime": created_ms,
        }


class Change(NamedTuple):
    """The content of a commit."""

    added: Sequence[BesideFile] = ()
    removed: AbstractSet[str] = frozenset()
    """Paths of files of the table."""
    txns: Mapping[str, int] = {}
    """Version by appId, of those that the commit sets."""
    metadata: Mapping[str, Any] | None = None
    """The ``metaData`` action, if the commit changes it."""
    operation: str = "WRITE"
    data_change: bool = True
    """False when the rows stay what they were."""


class BesideEntry(NamedTuple):
    """A commit as it was read."""

    version: int
    timestamp_ms: int
    added: tuple[BesideFile, ...]
    removed: tuple[Removed, ...]
    txns: Mapping[str, int]
    metadata: Mapping[str, Any] | None
    size: int
    """Bytes of the entry."""


@dataclass(frozen=True, slots=True)
class BesideState:
    """The table at a version; immutable."""

    version: int = -1
    """-1 when there is no table."""
    timestamp_ms: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    txns: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, BesideFile] = field(default_factory=dict)
    """By path."""
    removed: Mapping[str, Removed] = field(default_factory=dict)
    """Files that left the table, by path, until they are deleted."""

    @property
    def epoch(self) -> int:
        """The epoch of the newest owner of ``messages`` who committed."""
        return self.txns.get(APP_ID, 0)

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for file in self.files.values())

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's ``configuration``."""
        found: Mapping[str, str] = self.metadata.get("configuration", {})
        return found

    def without_removed(self, paths: AbstractSet[str]) -> "BesideState":
        """Forget files that left the table and were deleted."""
        return replace(self, removed={path: one for path, one in self.removed.items() if path not in paths})

    def after(self, entry: BesideEntry, *, file: str) -> "BesideState":
        """Return the state after the next commit; raise :class:`DamagedData` when it does not follow."""
        if entry.version != self.version + 1:
            raise DamagedData(file, f"version {entry.version} does not follow version {self.version}")
        if self.version < 0 and entry.metadata is None:
            raise DamagedData(file, "there is no metaData")
        files, removed = dict(self.files), dict(self.removed)
        for gone in entry.removed:
            if files.pop(gone.name, None) is None:
                raise DamagedData(file, f"removes {gone.name}, which is not in the table")
            removed[gone.name] = gone
        files |= {one.path: one for one in entry.added}
        return BesideState(
            entry.version,
            max(self.timestamp_ms, entry.timestamp_ms),
            entry.metadata or self.metadata,
            {**self.txns, **entry.txns},
            files,
            removed,
        )


def encode(version: int, change: Change, state: BesideState, *, timestamp_ms: int, epoch: int) -> bytes:
    """Encode the commit of ``change`` to ``state`` as the bytes of its log entry."""
    info = {
        "timestamp": timestamp_ms,
        "operation": change.operation,
        "operationParameters": {},
        "isBlindAppend": bool(change.added and not change.removed),
        "engineInfo": ENGINE,
        "silt": {"crc": NO_CRC, "epoch": epoch},
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if version == 0:
        actions.append({"protocol": protocol_action()})
    if change.metadata is not None:
        actions.append({"metaData": change.metadata})
    actions += [
        {"txn": {"appId": app_id, "version": value, "lastUpdated": timestamp_ms}}
        for app_id, value in {APP_ID: epoch, **change.txns}.items()
    ]
    changes = change.data_change
    actions += [{"add": _add(file, timestamp_ms, data_change=changes)} for file in change.added]
    gone = [state.files[path] for path in sorted(change.removed)]
    actions += [{"remove": _remove(file, timestamp_ms, data_change=changes)} for file in gone]
    return seal(actions)


def decode(version: int, raw: bytes, *, file: str) -> BesideEntry:
    """Decode an entry; raise :class:`DamagedData` unless it is, to the byte, one that :func:`encode` made."""
    entry_seal.verify(raw, file=file)
    try:
        actions = entry_seal.actions_of(raw)
        for protocol in actions.get("protocol", ()):
            check_protocol(protocol)
        [info], [metadata] = actions["commitInfo"], actions.get("metaData", [None])
        return BesideEntry(
            version,
            info["timestamp"],
            tuple(map(_file_of, actions.get("add", ()))),
            tuple(
                Removed(path_of(one["path"]), one["size"], one["deletionTimestamp"])
                for one in actions.get("remove", ())
            ),
            {txn["appId"]: txn["version"] for txn in actions.get("txn", ())},
            metadata,
            len(raw),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedData(file, f"not an entry of this table: {error!r}") from error


def encode_checkpoint(state: BesideState) -> bytes:
    """Encode a checkpoint of the state as a Parquet file."""
    head: list[dict[str, Any]] = [{"protocol": protocol_action()}, {"metaData": state.metadata}]
    head += [
        {"txn": {"appId": app_id, "version": version, "lastUpdated": state.timestamp_ms}}
        for app_id, version in state.txns.items()
    ]
    actions = [{"add": _add(file, file.modified_ms, data_change=False)} for file in state.files.values()]
    actions += [
        {"remove": {"path": url_of(one.name), "deletionTimestamp": one.at_ms, "dataChange": False, "size": one.size}}
        for one in state.removed.values()
    ]
    return checkpoint_table.encode(checkpoint_table.by_rows(head + actions))


def checkpoint_pointer(state: BesideState, body: bytes) -> bytes:
    """Return the content of ``_last_checkpoint`` for a checkpoint of the state."""
    size = 2 + len(state.txns) + len(state.files) + len(state.removed)
    return checkpoint_table.pointer(state.version, body, actions=size, files=len(state.files))


def decode_checkpoint(version: int, body: bytes, *, checksum: str | None) -> BesideState:
    """Return the state at a checkpoint; raise :class:`DamagedCheckpoint`."""
    table = checkpoint_table.decode(body, checksum=checksum)
    try:
        found = {name: table[name].drop_null().to_pylist() for name in table.column_names}
        [metadata] = found["metaData"]
        files = list(map(_file_of, found["add"]))
        gone = [Removed(path_of(one["path"]), one["size"] or 0, one["deletionTimestamp"]) for one in found["remove"]]
        return BesideState(
            version,
            max((txn["lastUpdated"] for txn in found["txn"]), default=0),
            metadata_of(metadata),
            {txn["appId"]: txn["version"] for txn in found["txn"]},
            {file.path: file for file in files},
            {one.name: one for one in gone},
        )
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"not a checkpoint of this table: {error}") from error


def _add(file: BesideFile, modified_ms: int, *, data_change: bool) -> dict[str, Any]:
    return {
        "path": url_of(file.path),
        "partitionValues": dict(file.partition),
        "size": file.size,
        "modificationTime": modified_ms,
        "dataChange": data_change,
        "stats": file.stats,
        "tags": None if file.checksum is None else {CRC_TAG: f"{file.checksum:08x}"},
    }


def _remove(file: BesideFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    return {
        "path": url_of(file.path),
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": dict(file.partition),
        "size": file.size,
    }


def _file_of(add: Mapping[str, Any]) -> BesideFile:
    values, tags = _mapping(add["partitionValues"]), _mapping(add.get("tags"))
    digits = tags.get(CRC_TAG)
    return BesideFile(
        path_of(add["path"]),
        add["size"],
        json.loads(add["stats"])["numRecords"],
        None if digits is None else int(digits, 16),
        add["stats"],
        tuple(values.items()),
        add["modificationTime"],
    )


def _mapping(pairs: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> dict[str, Any]:
    """Return a map of an entry, or of a checkpoint, which has pairs."""
    return dict(pairs or ())
