"""Choices of files of ``messages`` that maintenance takes out or rewrites, from the log's statistics alone. Pure."""

from collections.abc import Iterable, Mapping

from delta_store.entries.settled_log import DataFile
from delta_store.values.schemas import RECENT_PARTITION

SMALL_FILE_BYTES = 16 * 1024 * 1024
SMALL_FILES_MIN = 16
"""Least number of small files in a folder that are merged."""
ROUND_BYTES_MAX = 512 * 1024 * 1024
"""Files that one round merges, in bytes; at least one folder's."""


def dead_files(files: Iterable[DataFile], fronts: Mapping[str, tuple[int, int]]) -> list[DataFile]:
    """Return the files that hold no row that is needed.

    ``fronts``: stream to (stream_id, first_seq). Files of older incarnations are dead, unless they hold events, and so
    are files of this one's messages below first_seq.
    """
    dead = []
    for file in files:
        front = fronts.get(file.stream or "")
        if front is None or file.events_only:
            continue
        newest = (file.stream_ids[1], file.seq[1] if file.has_messages else front[1])
        if newest < front:
            dead.append(file)
    return dead


def small_files(files: Iterable[DataFile]) -> list[DataFile]:
    """Return the small files of folders that have many, folder by folder; messages not yet spread count as small."""
    folders: dict[tuple[str | None, str | None], list[DataFile]] = {}
    for file in files:
        if file.size < SMALL_FILE_BYTES or file.subject_partition == RECENT_PARTITION:
            folders.setdefault((file.stream, file.subject_partition), []).append(file)
    chosen: list[DataFile] = []
    left = ROUND_BYTES_MAX
    for mine in sorted(folders.values(), key=len, reverse=True):
        if len(mine) < SMALL_FILES_MIN or left <= 0:
            break
        chosen += sorted(mine, key=lambda file: file.seq)
        left -= sum(file.size for file in mine)
    return chosen
