"""The oldest point at which a stream can still be read: as far back as log entries and files go."""

from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.reading.settled import SettledTable
from delta_store.values.read_errors import FileGone


def oldest_sequence(settled: SettledTable, stream: str, stream_id: int) -> int:
    """Return the first settled sequence whose state can be read, or the one behind the watermark when none can.

    Bisects the versions: what vacuum took is gone from all versions before. Only called when a read has failed.
    """
    snapshot = settled.snapshot
    low, high = settled.log.oldest_entry(), snapshot.version
    if low > 0:
        low = min(low + 1, high)  # which messages an entry settled is told by the one before
    while low < high:
        middle = (low + high) // 2
        if _is_whole(settled, snapshot, middle, stream):
            high = middle
        else:
            low = middle + 1
    try:
        mark = settled.mark_at(low - 1, stream) if low > 0 else None
    except FileGone:
        mark = settled.watermarks.get(stream)
    return mark.seq + 1 if mark is not None and mark.stream_id == stream_id else 1


def _is_whole(settled: SettledTable, newest: Snapshot, version: int, stream: str) -> bool:
    """Whether a version's entry and all of its files of a stream are there."""
    try:
        gone = [file for file in settled.log.at(version).of_stream(stream) if file.path not in newest.files]
    except FileGone:
        return False
    return all(_exists(settled, file) for file in gone)


def _exists(settled: SettledTable, file: DataFile) -> bool:
    try:
        settled.log.filesystem.open_input_file(settled.log.path_of(file)).close()
    except FileNotFoundError:
        return False
    return True
