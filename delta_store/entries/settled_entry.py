"""The log entries of ``messages`` as bytes: those that its owner commits, and what it needs of older ones. Pure.

Layout of an entry, one action a line:

    commitInfo   ``userMetadata``: the note, as readers know it; ``silt``: {crc, epoch, counter, writer, base, files}
    protocol     version 0 only
    metaData     version 0, and a commit that changes the properties
    txn          appId ``silt-settle``, version ``epoch << 40 | counter``: for fencing, and to know one's own commit
    add          a data file; tag ``silt.crc``: the CRC-32 of its bytes
    remove       a file that limits (dataChange) or a compaction took out

``base`` is the newest checkpoint, ``files`` the newest list of live files, if not older: a reader of the past finds
them without listing the log. Checkpoints have the files that left the table within the horizon, too, and get rare as
they grow by them; such a list grows with the live files alone. Every entry is sealed
(:mod:`delta_store.entries.entry_seal`) and has a note. Entries of older versions of Silt were written by Delta for
Spark: they have no stamp, their ``txn`` is the number of the batch, and some have no note.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from delta_store.entries.entry_seal import ENGINE, NO_CRC, Actions, seal
from delta_store.entries.log_entry import Stamp, protocol_action, txn_action
from delta_store.entries.settled_log import CRC_TAG, path_of, read_note
from delta_store.entries.staged_file import STATISTICS, StagedFile
from delta_store.values.schemas import (
    MESSAGES_COLUMNS,
    MESSAGES_FOLDER,
    MESSAGES_PARTITION_COLUMNS,
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    delta_schema_string,
)
from delta_store.values.watermark import Claim, CommitNote, Op

APP_ID: Final = "silt-settle"
_URL_SAFE: Final = "/=$"
_OPERATIONS: Final = {Op.APPEND: "WRITE", Op.LIMITS: "DELETE", Op.COMPACT: "OPTIMIZE"}
PROPERTIES: Final = {
    "delta.enableDeletionVectors": "false",
    "delta.enableChangeDataFeed": "false",
    "delta.enableExpiredLogCleanup": "false",
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
}
"""The table's other properties. Log cleanup is the owner's alone: another engine's would go by age."""
CREATE: Final = "CREATE"
CLAIM: Final = "CLAIM"
SET_PROPERTIES: Final = "SET TBLPROPERTIES"


class TableFile(NamedTuple):
    """A file of the table, as its ``add`` action describes it."""

    url: str
    """Path as the log has it: percent-encoded."""
    stream: str | None
    subject_partition: str | None
    size: int
    """Bytes."""
    modified_ms: int
    stats: str | None
    tags: Mapping[str, str] | None


class SettledCommit(NamedTuple):
    """The content of an entry that is to be committed."""

    version: int
    timestamp_ms: int
    stamp: Stamp
    writer: str
    """Id of the process that wrote it: distinguishes two that claim the same epoch."""
    base: int
    """The newest checkpoint; -1 without any."""
    note: CommitNote
    operation: str = ""
    """Delta's name for it; by default that of the note's operation."""
    metadata: Mapping[str, Any] | None = None
    """The ``metaData`` action, if the commit changes it."""
    added: Sequence[StagedFile] = ()
    removed: Sequence[TableFile] = ()
    files: int | None = None
    """The newest version whose live files are listed apart, if that is not older than ``base``."""


class OwnerTerms(NamedTuple):
    """The content of an entry, of any writer, that only the table's owner needs."""

    stamp: Stamp | None
    """None for a commit of another program."""
    note: CommitNote | None
    metadata: Mapping[str, Any] | None
    txns: Mapping[str, Mapping[str, Any]]
    """The ``txn`` actions by appId."""
    added: Mapping[str, TableFile]
    """By decoded path."""


def retention(horizon_seconds: float) -> dict[str, str]:
    """Return the table's properties that tell other engines for how long past versions are kept."""
    horizon = f"interval {int(horizon_seconds)} seconds"
    return {"delta.logRetentionDuration": horizon, "delta.deletedFileRetentionDuration": horizon}


def new_metadata(table_id: str, created_ms: int, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``metaData`` action of a new table."""
    return {
        "id": table_id,
        "name": MESSAGES_FOLDER,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema_string(MESSAGES_COLUMNS),
        "partitionColumns": list(MESSAGES_PARTITION_COLUMNS),
        "configuration": dict(properties),
        "createdTime": created_ms,
    }


def changed_metadata(metadata: Mapping[str, Any], properties: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a table's ``metaData`` with these properties; None when it has them."""
    wanted = {**metadata["configuration"], **properties}
    return None if wanted == metadata["configuration"] else {**metadata, "configuration": wanted}


def no_rows(note: CommitNote) -> CommitNote:
    """Return the note of a commit that changes no row, after a commit with ``note``."""
    claim = None if note.claim is None else Claim(note.claim.rows, {})
    return CommitNote(Op.COMPACT, note.watermarks, note.batch, claim)


def encode(commit: SettledCommit) -> bytes:
    """Encode a commit as the bytes of its log entry."""
    stamp = commit.stamp
    info = {
        "timestamp": commit.timestamp_ms,
        "operation": commit.operation or _OPERATIONS[commit.note.op],
        "operationParameters": {},
        "isBlindAppend": bool(commit.added and not commit.removed),
        "engineInfo": ENGINE,
        "silt": {
            "crc": NO_CRC,
            "epoch": stamp.epoch,
            "counter": stamp.counter,
            "writer": commit.writer,
            "base": commit.base,
            **({} if commit.files is None else {"files": commit.files}),
        },
        "userMetadata": commit.note.as_json(),
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if commit.version == 0:
        actions.append({"protocol": protocol_action()})
    if commit.metadata is not None:
        actions.append({"metaData": commit.metadata})
    actions.append({"txn": txn_action(APP_ID, stamp, commit.timestamp_ms)})
    changes = commit.note.op is not Op.COMPACT
    actions += [
        {"add": add_action(_table_file(file, commit.timestamp_ms), data_change=changes)} for file in commit.added
    ]
    actions += [{"remove": _remove_action(file, commit.timestamp_ms, data_change=changes)} for file in commit.removed]
    return seal(actions)


def add_action(file: TableFile, *, data_change: bool) -> dict[str, Any]:
    """Return the ``add`` action of a file."""
    return {
        "path": file.url,
        "partitionValues": partition_of(file),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
        "stats": file.stats,
        "tags": file.tags,
    }


def terms_of(actions: Actions) -> OwnerTerms:
    """Return the owner's content of an entry; raise ``ValueError``, ``KeyError`` or ``TypeError`` if it can't be ours.

    That is so for a protocol that Silt does not know, and for a ``txn`` that contradicts the stamp.
    """
    for protocol in actions.get("protocol", ()):
        check_protocol(protocol)
    [metadata] = actions.get("metaData", [None])
    infos = actions.get("commitInfo", ())
    silt = infos[0].get("silt") if infos else None
    stamp = None if silt is None else Stamp(int(silt["epoch"]), int(silt["counter"]))
    txns = {str(txn["appId"]): txn for txn in actions.get("txn", ())}
    if stamp is not None and txns[APP_ID]["version"] != stamp.txn_version:
        raise ValueError("its txn and its commitInfo disagree")
    added = {path_of(add["path"]): file_of(add) for add in actions.get("add", ())}
    return OwnerTerms(stamp, read_note(infos[0]) if infos else None, metadata, txns, added)


def check_protocol(protocol: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a table that needs more than Silt's tables do: it would be written wrongly."""
    needs = (protocol["minReaderVersion"], protocol["minWriterVersion"])
    if needs > (MIN_READER_VERSION, MIN_WRITER_VERSION):
        raise ValueError(f"it needs Delta reader {needs[0]} and writer {needs[1]}")


def file_of(add: Mapping[str, Any]) -> TableFile:
    """Return the file of an ``add`` action, whose maps are mappings."""
    values = add.get("partitionValues") or {}
    return TableFile(
        add["path"],
        values.get("stream"),
        values.get("subject_partition"),
        add["size"],
        add["modificationTime"],
        add.get("stats"),
        add.get("tags"),
    )


def url_of(path: str) -> str:
    """Return a path as the log has it: percent-encoded."""
    return quote(path, safe=_URL_SAFE)


def _table_file(file: StagedFile, now_ms: int) -> TableFile:
    tags = {CRC_TAG: f"{file.checksum:08x}"}
    return TableFile(url_of(file.path), file.stream, file.subject_partition, file.size, now_ms, file.stats, tags)


def _remove_action(file: TableFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    return {
        "path": file.url,
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": partition_of(file),
        "size": file.size,
    }


def partition_of(file: TableFile) -> dict[str, str | None]:
    """Return a file's partition values."""
    values = (file.stream, file.subject_partition)
    return dict(zip(MESSAGES_PARTITION_COLUMNS, values, strict=True))
