"""The journal version at which the settle job starts, from log entries and watermarks, not from a checkpoint. Pure.

The job settles commits in order, so the versions whose rows are all settled come first: the start is found by
bisection.
"""

from bisect import bisect_left
from collections.abc import Callable

from delta_store.entries.log_entry import JournalEntry
from delta_store.values.records import Position
from delta_store.values.watermark import Watermarks, is_settled

EntryOf = Callable[[int], JournalEntry]
"""Returns a version's log entry."""


def starting_version(entry: EntryOf, earliest: int, latest: int, watermarks: Watermarks) -> int | None:
    """Return the first version with unsettled rows, or the latest when there is none.

    None when log cleanup has deleted entries of unsettled rows: then only the table's current files as a whole hold all
    of them.
    """
    versions = range(earliest, latest + 1)
    place = bisect_left(versions, True, key=lambda version: not all_settled(entry, version, earliest, watermarks))
    if place == 0 and earliest > 0:
        return None
    return min(earliest + place, latest)


def all_settled(entry: EntryOf, version: int, earliest: int, watermarks: Watermarks) -> bool:
    """Whether the newest version up to this one that has rows is settled."""
    for older in range(version, earliest - 1, -1):
        last_rows = _last_positions(entry(older))
        if last_rows:
            return all(is_settled(position, watermarks.get(stream)) for stream, position in last_rows)
    return True


def _last_positions(entry: JournalEntry) -> list[tuple[str, Position]]:
    """Return the last row of each stream that a commit added; empty for a commit that added nothing."""
    spans = (span for file in entry.added for span in file.spans)
    return [(span.stream, Position(span.stream_id, span.last_seq, span.last_event)) for span in spans]
