"""Data files of ``messages`` that are written and not committed yet: what the committer needs of them. Pure.

A path names the epoch of the owner for whom its file was written. A file of an older epoch that no entry names can't be
committed any more, because its owner is fenced: so it may be deleted.
"""

from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

from delta_store.values.schemas import MESSAGES_PARTITION_COLUMNS

STATISTICS: Final = (
    "stream_id",
    "seq",
    "event_no",
    "kind",
    "subject",
    "ts_ns",
    "msg_id",
    "first_seq",
    "evicts",
    "size",
)
"""Columns with file statistics: payloads have none, or the log would hold copies of them."""
_FOLDER_BYTES_MAX: Final = 240
"""Longest name of a folder on any file system, with room for what engines add to it."""
_FOLDER_SAFE: Final = "$"


class StagedFile(NamedTuple):
    """A data file that is durable in the table's folder, and that no log entry names yet."""

    path: str
    """Relative to the table, decoded."""
    stream: str
    """Partition value."""
    subject_partition: str
    """Partition value."""
    size: int
    """Bytes."""
    rows: int
    checksum: int
    """CRC-32 of the file's bytes."""
    stats: str
    """Delta's statistics of all of :data:`STATISTICS`, as JSON."""


class Writing(NamedTuple):
    """Who stages a file, and for which batch."""

    epoch: int
    """The owner's."""
    batch: int


def staged_path(writing: Writing, stream: str, subject_partition: str, *, number: int, unique: str) -> str:
    """Return the path of a new file; ``unique`` differs between attempts to write the same one."""
    values = (stream, subject_partition)
    folders = [_folder(name, value) for name, value in zip(MESSAGES_PARTITION_COLUMNS, values, strict=True)]
    name = f"part-{writing.epoch:06d}-{writing.batch:012d}-{number:05d}-{unique}.parquet"
    return "/".join((*folders, name))


def stream_folder(stream: str) -> str:
    """Return the folder of a stream's files."""
    return _folder(MESSAGES_PARTITION_COLUMNS[0], stream)


def staged_epoch(path: str) -> int | None:
    """Return the epoch for which a file was written; None for files of older versions of Silt."""
    parts = path.rpartition("/")[2].split("-")
    if len(parts) != 5 or parts[0] != "part" or not all(part.isdecimal() for part in parts[1:4]):
        return None
    return int(parts[1]) if len(parts[1]) == 6 and len(parts[2]) == 12 else None


def _folder(column: str, value: str) -> str:
    """Return the folder of a partition value: named by it, or by its hash when that would be too long.

    More is escaped than Hive does, so that the name is the same on every file system and in every URL. Readers take
    partition values from the log.
    """
    name = f"{column}={quote(value, safe=_FOLDER_SAFE)}"
    return name if len(name) <= _FOLDER_BYTES_MAX else f"{column}={sha256(value.encode()).hexdigest()}"
