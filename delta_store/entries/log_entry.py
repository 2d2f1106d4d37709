"""A log entry of the journal: the Delta actions of one commit as bytes, and back. Pure.

Layout of ``_delta_log/<version>.json``, one action a line:

    commitInfo   ``silt``: {crc, epoch, counter, writer, watermarks {stream: {id, seq, event, first}}}
    protocol     version 0 only
    metaData     version 0, and a claim that changes the configuration
    txn          appId ``silt/<shard>``, version ``epoch << 40 | counter``: fencing, and whose commit it is
    txn          appId ``silt/<shard>/settled``, with removes: the version of ``messages`` that they rely on
    add          the group's rows; tag ``silt``: {crc, rows, spans}
    remove       settled files (truncation), dataChange false

``crc`` of commitInfo is the CRC-32 of the whole entry with that field's digits as zeros. Invariant: an entry that is
empty, short, NUL-filled or altered in any byte is reported as damage, never read as a smaller commit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from isal.isal_zlib import crc32

from delta_store.entries.journal_file import STATISTICS, Span
from delta_store.values.schemas import JOURNAL_COLUMNS, MIN_READER_VERSION, MIN_WRITER_VERSION, delta_schema_string

COUNTER_BITS: Final = 40
TABLE_CONFIGURATION: Final = {
    "delta.appendOnly": "true",
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
}
"""Log cleanup is ours alone: another engine's would go by age and not know what the settle job still needs."""
TOMBSTONES_KEPT_MS: Final = 3_600_000
"""``delta.deletedFileRetentionDuration``: how long a checkpoint names the files that have left the table."""
_CRC_KEY: Final = b'"crc":"'
_CRC_ZEROS: Final = b"00000000"
_TAG: Final = "silt"

Marks = Mapping[str, Mapping[str, int]]
"""Per stream ``{id, seq, event, first}``: where its journal stands after a commit."""


NEVER_RELIED: Final = -1
"""The journal has forgotten nothing yet, so it relies on no version of ``messages``."""


class DamagedEntry(ValueError):
    """The bytes are not those of a log entry as it was written; the text says why."""


class Stamp(NamedTuple):
    """Who wrote a commit, and which of its commits it was; ordered."""

    epoch: int
    counter: int

    @property
    def txn_version(self) -> int:
        """As Delta's ``txn`` action carries it."""
        return self.epoch << COUNTER_BITS | self.counter

    def next(self) -> "Stamp":
        """The same owner's next commit."""
        return Stamp(self.epoch, self.counter + 1)


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A Parquet file of the journal, as its ``add`` action tells."""

    name: str
    """``<version>-<epoch>-<counter>.parquet``; unique, also over attempts that failed."""
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


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit."""

    version: int
    stamp: Stamp
    writer: str
    """Id of the process that wrote it: tells two that claim the same epoch apart."""
    timestamp_ms: int
    operation: str
    file: JournalFile | None = None
    removed: tuple[Removed, ...] = ()
    marks: Marks | None = None
    metadata: Mapping[str, Any] | None = None
    """The ``metaData`` action, where the commit changes it."""
    relies_on: int | None = None
    """Of a truncation, the version of ``messages`` that holds what is removed; None when that is not known."""


def entry_name(version: int) -> str:
    """Name of a version's log entry inside the log folder."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    """The version a log entry's name stands for; None for any other file of the log folder."""
    digits = name.removesuffix(".json")
    return int(digits) if len(name) == 25 and len(digits) == 20 and digits.isdecimal() else None


def file_name(version: int, stamp: Stamp) -> str:
    """Name of the Parquet file that a commit adds."""
    return f"{version:020d}-{stamp.epoch:06d}-{stamp.counter:012d}.parquet"


def file_version(name: str) -> int | None:
    """The version that a journal file was written for; None for a name that is not ours."""
    digits = name[:20]
    return int(digits) if name.endswith(".parquet") and name[20:21] == "-" and digits.isdecimal() else None


def new_metadata(table_id: str, created_ms: int) -> dict[str, Any]:
    """The ``metaData`` action of a new journal."""
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
    """A journal's ``metaData`` with today's configuration; None when it has that."""
    configuration = {**metadata["configuration"], **TABLE_CONFIGURATION}
    return None if configuration == metadata["configuration"] else {**metadata, "configuration": configuration}


def protocol_action() -> dict[str, int]:
    """The ``protocol`` action: the oldest that all engines read."""
    return {"minReaderVersion": MIN_READER_VERSION, "minWriterVersion": MIN_WRITER_VERSION}


def add_action(file: JournalFile, *, data_change: bool) -> dict[str, Any]:
    """The ``add`` action of a file; in a checkpoint ``data_change`` is false."""
    tag = {"crc": file.checksum, "rows": file.rows, "spans": file.spans}
    return {
        "path": file.name,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
        "stats": file.stats,
        "tags": {_TAG: _compact(tag)},
    }


def remove_action(removed: Removed) -> dict[str, Any]:
    """The ``remove`` action of a settled file: no reader of the journal sees its rows as deleted."""
    return {
        "path": removed.name,
        "deletionTimestamp": removed.at_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": removed.size,
    }


def txn_action(app_id: str, stamp: Stamp, timestamp_ms: int) -> dict[str, Any]:
    """The ``txn`` action of a commit."""
    return {"appId": app_id, "version": stamp.txn_version, "lastUpdated": timestamp_ms}


def relies_on_action(app_id: str, version: int, timestamp_ms: int) -> dict[str, Any]:
    """The ``txn`` action that says which version of ``messages`` the journal relies on."""
    return {"appId": _settled_app(app_id), "version": version, "lastUpdated": timestamp_ms}


def split_txns(txns: Sequence[Mapping[str, Any]], app_id: str) -> tuple[Mapping[str, Any], int | None]:
    """The owner's ``txn`` and what :func:`relies_on_action` said; raises ``ValueError`` unless there is one owner."""
    relied = [int(txn["version"]) for txn in txns if txn["appId"] == _settled_app(app_id)]
    [owner] = [txn for txn in txns if txn["appId"] != _settled_app(app_id)]
    return owner, relied[0] if relied else None


def _settled_app(app_id: str) -> str:
    return f"{app_id}/settled"


def encode(entry: LogEntry, app_id: str) -> bytes:
    """The entry as it is stored."""
    silt = {
        "crc": _CRC_ZEROS.decode(),
        "epoch": entry.stamp.epoch,
        "counter": entry.stamp.counter,
        "writer": entry.writer,
    }
    info = {
        "timestamp": entry.timestamp_ms,
        "operation": entry.operation,
        "operationParameters": {},
        "isBlindAppend": not entry.removed,
        "engineInfo": "silt",
        "silt": silt if entry.marks is None else silt | {"watermarks": entry.marks},
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if entry.version == 0:
        actions.append({"protocol": protocol_action()})
    if entry.metadata is not None:
        actions.append({"metaData": entry.metadata})
    actions.append({"txn": txn_action(app_id, entry.stamp, entry.timestamp_ms)})
    if entry.relies_on is not None:
        actions.append({"txn": relies_on_action(app_id, entry.relies_on, entry.timestamp_ms)})
    if entry.file is not None:
        actions.append({"add": add_action(entry.file, data_change=True)})
    actions += [{"remove": remove_action(removed)} for removed in entry.removed]
    raw = ("\n".join(map(_compact, actions)) + "\n").encode()
    start = raw.index(_CRC_KEY) + len(_CRC_KEY)
    return raw[:start] + b"%08x" % crc32(raw) + raw[start + 8 :]


def decode(version: int, raw: bytes, app_id: str) -> LogEntry:
    """Read an entry back; raises :class:`DamagedEntry` unless it is, to the byte, one that :func:`encode` made."""
    _verify(raw)
    actions: dict[str, list[Any]] = {}
    try:
        for line in raw.splitlines():
            [(name, body)] = json.loads(line).items()
            actions.setdefault(name, []).append(body)
        info = actions["commitInfo"][0]
        stamp = Stamp(info["silt"]["epoch"], info["silt"]["counter"])
        txn, relies_on = split_txns(actions["txn"], app_id)
        entry = LogEntry(
            version=version,
            stamp=stamp,
            writer=info["silt"]["writer"],
            timestamp_ms=info["timestamp"],
            operation=info["operation"],
            file=_only_file(version, actions.get("add", ())),
            removed=tuple(removed_of(remove) for remove in actions.get("remove", ())),
            marks=info["silt"].get("watermarks"),
            metadata=actions["metaData"][0] if "metaData" in actions else None,
            relies_on=relies_on,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedEntry(f"not an entry of the journal: {error!r}") from error
    if txn["appId"] != app_id:
        raise DamagedEntry(f"written by {txn['appId']!r}, this journal belongs to {app_id!r}")
    if txn["version"] != stamp.txn_version:
        raise DamagedEntry("its txn and its commitInfo disagree")
    return entry


def file_of(add: Mapping[str, Any]) -> JournalFile:
    """The file an ``add`` action names; raises ``ValueError``, ``KeyError`` or ``TypeError`` if it is not ours."""
    version = file_version(add["path"])
    if version is None:
        raise ValueError(f"file name {add['path']!r}")
    tag = json.loads(dict(add["tags"])[_TAG])
    spans = tuple(Span(*span) for span in tag["spans"])
    return JournalFile(
        add["path"], version, add["size"], tag["rows"], tag["crc"], spans, add["stats"], add["modificationTime"]
    )


def removed_of(remove: Mapping[str, Any]) -> Removed:
    """The removed file a ``remove`` action names."""
    return Removed(remove["path"], remove["size"], remove["deletionTimestamp"])


def _only_file(version: int, adds: Sequence[Mapping[str, Any]]) -> JournalFile | None:
    if not adds:
        return None
    [add] = adds
    file = file_of(add)
    if file.version != version:
        raise ValueError(f"file {file.name} was written for another version")
    return file


def _verify(raw: bytes) -> None:
    if not raw:
        raise DamagedEntry("it is empty")
    if not raw.strip(b"\0"):
        raise DamagedEntry("it is filled with NUL bytes")
    start = raw.find(_CRC_KEY) + len(_CRC_KEY)
    if start < len(_CRC_KEY) or not raw.endswith(b"}\n"):
        raise DamagedEntry("it is cut short, or not written by Silt")
    if raw[start : start + 8] != b"%08x" % crc32(raw[:start] + _CRC_ZEROS + raw[start + 8 :]):
        raise DamagedEntry("its content does not match its checksum")


_compact = json.JSONEncoder(separators=(",", ":")).encode
