"""A version of a Delta log as a value, for both tables; and the journal's as bytes, and back. Pure.

Layout of the journal's ``_delta_log/<version>.json``, one action a line:

    commitInfo   ``silt``: {crc, epoch, counter, writer, watermarks {stream: {id, seq, event, first}}}
    protocol     version 0 only
    metaData     version 0, and a claim that changes the configuration
    txn          appId ``silt/<shard>``, version ``epoch << 40 | counter``: for fencing, and to know one's own commit
    txn          appId ``silt/<shard>/settled``, with removes: the version of ``messages`` that holds their rows
    add          the group's rows; tag ``silt``: {crc, rows, spans}
    remove       settled files (truncation), dataChange false

Every entry is sealed (:mod:`delta_store.entries.entry_seal`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from delta_store.entries import entry_seal
from delta_store.entries.entry_seal import ENGINE, NO_CRC, compact, seal
from delta_store.entries.journal_file import STATISTICS, Span
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_COLUMNS, MIN_READER_VERSION, MIN_WRITER_VERSION, delta_schema_string

COUNTER_BITS: Final = 40
TABLE_CONFIGURATION: Final = {
    "delta.appendOnly": "true",
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
}
"""Log cleanup is ours alone: another engine's would go by age and delete what the settle job still needs."""
TOMBSTONES_KEPT_MS: Final = 3_600_000
"""``delta.deletedFileRetentionDuration``: how long checkpoints keep the ``remove`` actions of deleted files."""
CLAIM: Final = "CLAIM"
"""The operation of a claim, which also updates an older table's configuration."""
_TAG: Final = "silt"
_CLAIMS: Final = f'"operation":"{CLAIM}"'.encode()

Marks = Mapping[str, Mapping[str, int]]
"""Per stream ``{id, seq, event, first}``: its last row in the journal after a commit."""


NEVER_RELIED: Final = -1
"""The journal has truncated nothing yet, so it relies on no version of ``messages``."""


class Stamp(NamedTuple):
    """The epoch of a commit's writer and the number of the commit within it; ordered."""

    epoch: int
    counter: int

    @classmethod
    def of(cls, txn_version: int) -> "Stamp":
        """Return the stamp of a ``txn`` action's version."""
        return cls(txn_version >> COUNTER_BITS, txn_version & ((1 << COUNTER_BITS) - 1))

    @property
    def txn_version(self) -> int:
        """The version in Delta's ``txn`` action."""
        return self.epoch << COUNTER_BITS | self.counter

    def next(self) -> "Stamp":
        """Return the stamp of the same owner's next commit."""
        return Stamp(self.epoch, self.counter + 1)


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A Parquet file of the journal, as its ``add`` action describes it."""

    name: str
    """``<version>-<epoch>-<counter>.parquet``; unique, failed attempts included."""
    version: int
    """The commit that added it."""
    size: int
    """Bytes."""
    rows: int
    checksum: int
    """CRC-32 of the file's bytes."""
    spans: tuple[Span, ...]
    stats: str
    """Delta's per-file statistics, as JSON."""
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A ``remove`` action: the file left the table and is deleted after a grace time."""

    name: str
    size: int
    at_ms: int


_File = TypeVar("_File")
_Note = TypeVar("_Note")


@dataclass(frozen=True, slots=True)
class LogEntry(Generic[_File, _Note]):
    """One version of a table: one commit."""

    version: int
    timestamp_ms: int
    note: _Note
    """The committer's own content of ``commitInfo``, under a checksum."""
    added: tuple[_File, ...] = ()
    removed: tuple[Removed, ...] = ()
    base: int | None = None
    """Of ``messages``, the newest checkpoint when it was committed, -1 for none; None where that is not recorded."""
    files: int | None = None
    """Of ``messages``, the newest version whose live files are listed apart, if that is not older than ``base``."""


@dataclass(frozen=True, slots=True)
class JournalNote:
    """The journal's own content of a log entry."""

    stamp: Stamp
    writer: str
    """Id of the process that wrote it: distinguishes two that claim the same epoch."""
    operation: str
    marks: Marks | None = None
    metadata: Mapping[str, Any] | None = None
    """The ``metaData`` action, if the commit changes it."""
    relies_on: int | None = None
    """Of a truncation, the version of ``messages`` that holds the removed rows; None when that is not known."""


JournalEntry = LogEntry[JournalFile, JournalNote]


def entry_name(version: int) -> str:
    """Return the name of a version's log entry inside the log folder."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    """Return the version of a log entry's name; None for any other file of the log folder."""
    digits = name.removesuffix(".json")
    return int(digits) if len(name) == 25 and len(digits) == 20 and digits.isdecimal() else None


def file_name(version: int, stamp: Stamp) -> str:
    """Return the name of the Parquet file that a commit adds."""
    return f"{version:020d}-{stamp.epoch:06d}-{stamp.counter:012d}.parquet"


def file_version(name: str) -> int | None:
    """Return the version that a journal file was written for; None for a name that is not ours."""
    digits = name[:20]
    return int(digits) if name.endswith(".parquet") and name[20:21] == "-" and digits.isdecimal() else None


def new_metadata(table_id: str, created_ms: int) -> dict[str, Any]:
    """Return the ``metaData`` action of a new journal."""
    return {
        "id": table_id,
        "name": "journal",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema_string(JOURNAL_COLUMNS),
        "partitionColumns": [],
        "configuration": dict(TABLE_CONFIGURATION),
        "createdTime": created_ms,
    }


def current_metadata(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a journal's ``metaData`` with today's configuration; None when it is unchanged."""
    configuration = {**metadata["configuration"], **TABLE_CONFIGURATION}
    return None if configuration == metadata["configuration"] else {**metadata, "configuration": configuration}


def protocol_action() -> dict[str, int]:
    """Return the ``protocol`` action: the oldest version, which all engines read."""
    return {"minReaderVersion": MIN_READER_VERSION, "minWriterVersion": MIN_WRITER_VERSION}


def add_action(file: JournalFile, *, data_change: bool) -> dict[str, Any]:
    """Return the ``add`` action of a file; in a checkpoint ``data_change`` is false."""
    tag = {"crc": file.checksum, "rows": file.rows, "spans": file.spans}
    return {
        "path": file.name,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
        "stats": file.stats,
        "tags": {_TAG: compact(tag)},
    }


def remove_action(removed: Removed) -> dict[str, Any]:
    """Return the ``remove`` action of a settled file: no reader of the journal sees its rows as deleted."""
    return {
        "path": removed.name,
        "deletionTimestamp": removed.at_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": removed.size,
    }


def txn_action(app_id: str, stamp: Stamp, timestamp_ms: int) -> dict[str, Any]:
    """Return the ``txn`` action of a commit."""
    return {"appId": app_id, "version": stamp.txn_version, "lastUpdated": timestamp_ms}


def relies_on_action(app_id: str, version: int, timestamp_ms: int) -> dict[str, Any]:
    """Return the ``txn`` action with the version of ``messages`` that the journal relies on."""
    return {"appId": _settled_app(app_id), "version": version, "lastUpdated": timestamp_ms}


def split_txns(txns: list[Mapping[str, Any]], app_id: str) -> tuple[Mapping[str, Any], int | None]:
    """Return the owner's ``txn`` and the version of :func:`relies_on_action`; raise ``ValueError`` unless one owner."""
    relied = [int(txn["version"]) for txn in txns if txn["appId"] == _settled_app(app_id)]
    [owner] = [txn for txn in txns if txn["appId"] != _settled_app(app_id)]
    return owner, relied[0] if relied else None


def _settled_app(app_id: str) -> str:
    return f"{app_id}/settled"


def encode(entry: JournalEntry, app_id: str) -> bytes:
    """Encode an entry as the bytes of its log file."""
    note = entry.note
    silt = {
        "crc": NO_CRC,
        "epoch": note.stamp.epoch,
        "counter": note.stamp.counter,
        "writer": note.writer,
    }
    info = {
        "timestamp": entry.timestamp_ms,
        "operation": note.operation,
        "operationParameters": {},
        "isBlindAppend": not entry.removed,
        "engineInfo": ENGINE,
        "silt": silt if note.marks is None else silt | {"watermarks": note.marks},
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if entry.version == 0:
        actions.append({"protocol": protocol_action()})
    if note.metadata is not None:
        actions.append({"metaData": note.metadata})
    actions.append({"txn": txn_action(app_id, note.stamp, entry.timestamp_ms)})
    if note.relies_on is not None:
        actions.append({"txn": relies_on_action(app_id, note.relies_on, entry.timestamp_ms)})
    actions += [{"add": add_action(file, data_change=True)} for file in entry.added]
    actions += [{"remove": remove_action(removed)} for removed in entry.removed]
    return seal(actions)


def decode(version: int, raw: bytes, app_id: str, *, file: str) -> JournalEntry:
    """Decode an entry; raise :class:`DamagedData` unless it is, to the byte, one that :func:`encode` made."""
    entry_seal.verify(raw, file=file)
    try:
        actions = entry_seal.actions_of(raw)
        info = actions["commitInfo"][0]
        silt, [metadata] = info["silt"], actions.get("metaData", [None])
        stamp = Stamp(silt["epoch"], silt["counter"])
        txn, relies_on = split_txns(actions["txn"], app_id)
        note = JournalNote(stamp, silt["writer"], info["operation"], silt.get("watermarks"), metadata, relies_on)
        added = tuple(map(file_of, actions.get("add", ())))
        removed = tuple(map(removed_of, actions.get("remove", ())))
        entry = LogEntry(version, info["timestamp"], note, added, removed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedData(file, f"not an entry of the journal: {error!r}") from error
    if txn["appId"] != app_id:
        raise DamagedData(file, f"written by {txn['appId']!r}, this journal belongs to {app_id!r}")
    for each in added:
        if each.version != version:
            raise DamagedData(file, f"file {each.name} was written for another version")
    if txn["version"] != stamp.txn_version:
        raise DamagedData(file, "its txn and its commitInfo disagree")
    return entry


def is_claim(raw: bytes) -> bool:
    """Whether a sealed entry is an owner's claim, without decoding it."""
    return _CLAIMS in raw


def file_of(add: Mapping[str, Any]) -> JournalFile:
    """Return the file of an ``add`` action; raise ``ValueError``, ``KeyError`` or ``TypeError`` if it is not ours."""
    version = file_version(add["path"])
    if version is None:
        raise ValueError(f"file name {add['path']!r}")
    tag = json.loads(dict(add["tags"])[_TAG])
    spans = tuple(Span(*span) for span in tag["spans"])
    return JournalFile(
        add["path"], version, add["size"], tag["rows"], tag["crc"], spans, add["stats"], add["modificationTime"]
    )


def removed_of(remove: Mapping[str, Any]) -> Removed:
    """Return the file of a ``remove`` action."""
    return Removed(remove["path"], remove["size"], remove["deletionTimestamp"])
