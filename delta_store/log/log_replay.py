"""The files of a version from a local table's log alone, where delta-rs can't open it: a checkpoint of its is torn.

Spark fsyncs no checkpoint. One that a power cut tore is passed over here: the one before it and the entries since make
up for it, because log cleanup waits until a checkpoint has been fsynced.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delta_store.entries.checkpoint_file import checkpoint_version
from delta_store.entries.log_entry import entry_name
from delta_store.entries.settled_log import DataFile, file_added, parse_entry
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER


def replay(table: Path, version: int) -> dict[str, DataFile]:
    """The files of ``version``, by path; raises :class:`DamagedData` when the log does not say."""
    start, files = _checkpoint(table, version)
    for number in range(start + 1, version + 1):
        path = table / LOG_FOLDER / entry_name(number)
        try:
            entry = parse_entry(number, path.read_bytes(), file=str(path))
        except FileNotFoundError as error:
            raise DamagedData(str(path), "missing, and no checkpoint makes up for it") from error
        for gone in entry.removed:
            files.pop(gone, None)
        files.update((file.path, file) for file in entry.added)
    return files


def checkpoints(table: Path) -> Iterator[tuple[int, Path]]:
    """Version and path of each checkpoint that is one file, the newest first."""
    found = [(checkpoint_version(path.name), path) for path in (table / LOG_FOLDER).glob("*.checkpoint.parquet")]
    yield from sorted(((version, path) for version, path in found if version is not None), reverse=True)


def _checkpoint(table: Path, version: int) -> tuple[int, dict[str, DataFile]]:
    """The newest checkpoint up to a version that can be read, and its files; -1 and none without one."""
    for found, path in checkpoints(table):
        if found <= version:
            try:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    added = file.read(columns=["add"])["add"].to_pylist()
            except (OSError, pa.ArrowException, KeyError):
                continue
            files = [file_added(add | {"partitionValues": dict(add["partitionValues"])}) for add in added if add]
            return found, {file.path: file for file in files}
    return -1, {}
