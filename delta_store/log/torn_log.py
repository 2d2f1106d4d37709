"""The end of the log of ``messages`` after a power cut: how far it is whole, and how far it must be.

Earlier versions had Spark commit, which fsyncs nothing: a power cut may have left the newest log entries and data files
empty, short or missing, and a disk may lie. Up to the version that the journal relies on, all has been fsynced and must
be there: damage to it is damage. Behind that version the journal still has every row: what is torn there is skipped by
readers and settled again.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_store.entries.log_entry import entry_name, version_of
from delta_store.entries.settled_log import MessagesEntry
from delta_store.log import journal_log
from delta_store.log.delta_log import DeltaLog, MessagesFormat
from delta_store.log.journal_reader import SHARD, app_id_of
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.journal_errors import JournalError
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_FOLDER, LOG_FOLDER

MAGIC: Final = b"PAR1"
FileCheck = Callable[[Path], bool]


def relied_version(data: Path) -> int | None:
    """Return the version of ``messages`` that the journal in this data folder relies on; None when not known."""
    folder = data / JOURNAL_FOLDER
    if not (folder / LOG_FOLDER).is_dir():
        return None
    try:
        return journal_log.load(LocalStorage(folder), app_id_of(SHARD)).state.relies_on
    except (JournalError, DamagedData, OSError):  # readers of the journal's rows report it
        return None


def whole_up_to(table: Path, relied: int | None, is_whole: FileCheck | None = None) -> int:
    """Return the newest version up to which the table is whole, -1 when there is none.

    ``relied`` is :func:`relied_version`; without it the newest version is returned, torn or not. Data files that were
    added behind it must satisfy ``is_whole``, by default: have Parquet's magic at both ends. Raises
    :class:`DamagedData` when the table is not whole up to ``relied``.
    """
    versions = listed(table)
    last = max(versions, default=-1)
    if relied is None:
        return last
    if last < relied:
        raise DamagedData(str(_entry_path(table, last + 1)), f"missing, and the journal relies on version {relied}")
    # Log cleanup deletes entries only when all that came after them has been fsynced.
    return _whole_from(table, max(relied, min(versions, default=0) - 1), is_whole or has_marks)


def listed(table: Path) -> set[int]:
    """Return the versions whose entries exist."""
    with suppress(FileNotFoundError):
        names = os.scandir(table / LOG_FOLDER)
        return {version for entry in names if (version := version_of(entry.name)) is not None}
    return set()


def has_marks(path: Path) -> bool:
    """Whether a file begins and ends with Parquet's magic."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            file.seek(-len(MAGIC), os.SEEK_END)
            return head == MAGIC == file.read()
    except OSError:
        return False


def can_be_read(path: Path) -> bool:
    """Whether every value of a Parquet file can be read: one may have its end and lack its middle."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except (OSError, pa.ArrowException):
        return False
    return True


def _whole_from(table: Path, known: int, is_whole: FileCheck) -> int:
    """Return the newest version behind ``known`` whose entries can be read up to it, and whose files are whole."""
    broken: set[str] = set()
    """Torn or missing files of the current version: a later one may have removed them."""
    end = known
    for entry in _entries(table, known + 1):
        broken.difference_update(gone.name for gone in entry.removed)
        broken.update(
            file.path
            for file in entry.added
            if not _has_size(table / file.path, file.size) or not is_whole(table / file.path)
        )
        if not broken:
            end = entry.version
    return end


def _entries(table: Path, version: int) -> Iterator[MessagesEntry]:
    """Iterate over the entries from a version on, up to the first that is missing or damaged."""
    log = DeltaLog(LocalStorage(table), MessagesFormat())
    with suppress(JournalError, DamagedData):
        while True:
            yield log.entry(version)
            version += 1


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _entry_path(table: Path, version: int) -> Path:
    return table / LOG_FOLDER / entry_name(version)
