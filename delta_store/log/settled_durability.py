"""Durability of the settled files, before the journal is truncated.

Executors and committer fsync what they write; earlier versions had Spark commit, which fsyncs nothing. So before
journal rows are truncated, every file that the ``messages`` commits since the last truncation added, their log entries
and all their folders are fsynced here once more, and what was written is read back: a log entry must parse, a data file
must have the size in its log entry and Parquet's magic at both ends.
"""

import os
from contextlib import suppress
from pathlib import Path

from delta_store.entries.checkpoint_table import checkpoint_name
from delta_store.entries.log_entry import entry_name
from delta_store.entries.settled_log import MessagesEntry, parse_entry
from delta_store.log.torn_log import MAGIC, listed
from delta_store.storage.fsync import fsync_path
from delta_store.values.read_errors import DamagedData, ReadError, ReadErrorKind


class NotDurable(ReadError):
    """A settled file or log entry is missing, short or damaged: nothing may be truncated."""

    kind = ReadErrorKind.DAMAGED_DATA


def make_durable(table: Path, after_version: int, up_to_version: int) -> int:
    """Fsync and check all that versions ``after_version + 1 … up_to_version`` of a local Delta table wrote.

    Returns the number of data files checked; it costs what they do, however long the log is.

    A file that a later version in the range removed again may be missing.
    Raises :class:`NotDurable`, or ``OSError`` when an fsync fails.
    """
    log = table / "_delta_log"
    added: dict[str, int] = {}
    if after_version < up_to_version and not (log / entry_name(after_version + 1)).exists():
        oldest = min(listed(table), default=0)
        if after_version + 1 < oldest:
            _fsync_all(table)
            after_version = oldest - 1
    for version in range(after_version + 1, up_to_version + 1):
        entry = _entry(log / entry_name(version), version)
        with suppress(FileNotFoundError):
            fsync_path(log / checkpoint_name(version))
        added.update((file.path, file.size) for file in entry.added)
        for gone in entry.removed:
            added.pop(gone.name, None)
    folders = {table}
    for name, size in added.items():
        path = table / name
        _check(path, size)
        folders.update(parent for parent in path.parents if parent.is_relative_to(table))
    for folder in (*folders, log, table.parent):
        fsync_path(folder)
    return len(added)


def _fsync_all(table: Path) -> None:
    """Fsync the whole table, for versions whose entries log cleanup has deleted."""
    for folder, _, names in os.walk(table):
        for name in (*names, "."):
            fsync_path(Path(folder, name))


def _entry(path: Path, version: int) -> MessagesEntry:
    try:
        fsync_path(path)
        return parse_entry(version, path.read_bytes(), file=str(path))
    except FileNotFoundError as error:
        raise NotDurable(f"log entry {path} is missing") from error
    except DamagedData as error:
        raise NotDurable(f"log entry {error}") from error


def _check(path: Path, size: int) -> None:
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            found = os.fstat(file.fileno()).st_size
            head = file.read(len(MAGIC))
            file.seek(max(0, found - len(MAGIC)))
            tail = file.read(len(MAGIC))
    except FileNotFoundError as error:
        raise NotDurable(f"settled file {path} is missing") from error
    if found != size or head != MAGIC or tail != MAGIC:
        raise NotDurable(f"settled file {path} is damaged: {found} bytes where its log entry says {size}")
