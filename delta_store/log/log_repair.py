"""Repair of ``messages`` after a power cut, before Spark opens it: a torn end that nobody relies on is set aside.

Runs in the settle process, under its lock: it is the one committer. The journal still has every row of what is set
aside, and it is settled again. Checksum files of Hadoop's local file system are deleted: earlier versions of Silt had
Spark write them, nobody fsynced them, and an empty one makes every read of its file fail.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_version, is_files_name
from delta_store.entries.log_entry import entry_name
from delta_store.log.settled_durability import make_durable
from delta_store.log.torn_log import can_be_read, listed, relied_version, whole_up_to
from delta_store.storage.fsync import fsync_path
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER, MESSAGES_FOLDER

ASIDE: Final = "set-aside"
"""Folder, beside the tables, for torn files."""
_VERSIONED: Final = re.compile(r"(\d{20})\.(json|crc|(checkpoint|files)\b.*)")
_LOOKED_AT_VERSIONS: Final = 1000
_LOOKED_AT_CHECKPOINTS: Final = 4
"""How many versions back checksum files, and how many checkpoints, are checked: both only save work."""


class Repaired(NamedTuple):
    """The outcome of :func:`repair_messages`."""

    version: int
    """The newest version; -1 without a table."""
    durable_version: int
    """The version up to which all has been fsynced."""
    aside: list[str]
    """Names of the torn files."""


def repair_messages(data: Path, *, now_ns: int) -> Repaired:
    """Make the table in the data folder one that Spark can open, and durable as it is.

    ``now_ns`` is part of the name of the folder set aside. Raises :class:`DamagedData` for damage that is no torn end.
    """
    table = data / MESSAGES_FOLDER
    if not table.is_dir():
        return Repaired(-1, -1, [])
    for path in _checksum_files(table):
        path.unlink()
    relied = relied_version(data)
    end = whole_up_to(table, relied, can_be_read)
    aside = data / ASIDE / f"{MESSAGES_FOLDER}-{now_ns}"
    if end < 0 and relied is None:
        raise DamagedData(str(table), "it has no log, and the journal does not say what it relies on")
    if end < 0:
        aside.parent.mkdir(exist_ok=True)
        table.rename(aside)
        fsync_path(data)
        return Repaired(-1, -1, [MESSAGES_FOLDER])
    torn = torn_of_log(table, end)
    if torn:
        aside.mkdir(parents=True)
    for path in torn:
        path.rename(aside / path.name)
    fsync_path(table / LOG_FOLDER)
    if relied is not None:
        make_durable(table, relied, end)
    return Repaired(end, -1 if relied is None else end, [path.name for path in torn])


def torn_of_log(table: Path, end: int) -> list[Path]:
    """Return the files to remove from the log, newest first, so that it is whole up to its end at any time."""
    log = table / LOG_FOLDER
    found = {entry.name: int(named[1]) for entry in log.iterdir() if (named := _VERSIONED.fullmatch(entry.name))}
    torn = {log / name for name, version in found.items() if version > end}
    late = [log / name for name, version in found.items() if end - _LOOKED_AT_VERSIONS < version <= end]
    torn.update(path for path in late if path.suffix == ".crc" and not path.stat().st_size)
    whole = sorted((name for name, version in found.items() if version <= end), reverse=True)
    checkpoints = [name for name in whole if checkpoint_version(name) is not None][:_LOOKED_AT_CHECKPOINTS]
    lists = [name for name in whole if is_files_name(name)][:_LOOKED_AT_CHECKPOINTS]
    torn.update(log / name for name in (*checkpoints, *lists) if not can_be_read(log / name))
    if any("checkpoint" in path.name for path in torn) or not _is_text(log / LAST_CHECKPOINT):
        torn.update({log / LAST_CHECKPOINT} if (log / LAST_CHECKPOINT).exists() else ())
    assert log / entry_name(max(listed(table))) in torn or max(listed(table)) == end
    return sorted(torn, reverse=True)


def _is_text(path: Path) -> bool:
    try:
        return path.read_bytes().strip(b"\0 \n") != b""
    except FileNotFoundError:
        return True


def _checksum_files(table: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(table):
        yield from (Path(folder, name) for name in names if name.startswith(".") and name.endswith(".crc"))
