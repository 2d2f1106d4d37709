"""Checks that the two tables belong together: the journal must go on where ``messages`` ends. Pure.

The journal is truncated only where it is settled, so its remaining rows begin at or before the row behind a stream's
watermark, and end at or behind the watermark. A lost table, or one restored from another day, breaks that: then
sequences that were acknowledged would be given to other messages.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from delta_store.entries.log_entry import JournalFile
from delta_store.values.records import Position
from delta_store.values.watermark import Watermarks


class Held(NamedTuple):
    """A stream's part in the journal."""

    first: Position
    last: Position


def held_by(files: Iterable[JournalFile]) -> dict[str, Held]:
    """Return each stream's part in files of the journal; files oldest first."""
    held: dict[str, Held] = {}
    for file in files:
        for span in file.spans:
            first = Position(span.stream_id, span.first_seq, span.first_event)
            last = Position(span.stream_id, span.last_seq, span.last_event)
            before = held.get(span.stream, Held(first, last))
            held[span.stream] = Held(min(before.first, first), max(before.last, last))
    return held


def fault_of_lost_journal(journal_version: int, watermarks: Watermarks) -> str | None:
    """Return the fault of a missing journal (version -1), or None."""
    if journal_version >= 0 or not watermarks:
        return None
    return (
        f"it is gone, while messages holds what was settled of {len(watermarks)} streams: what was acknowledged since "
        "is gone with it. Bring it back from a backup, or go on without it: silt repair --accept-lost-journal"
    )


def fault_between(watermarks: Watermarks, held: Mapping[str, Held], *, skipping: Collection[str] = ()) -> str | None:
    """Return the fault between the watermarks of ``messages`` and the journal's parts, or None.

    ``skipping`` are the streams whose sequences may have gaps (mirrors).
    """
    for stream, part in sorted(held.items()):
        mark = watermarks.get(stream)
        if mark is not None and mark.position > part.last:
            return (
                f"messages has stream {stream!r} up to {_place(mark.position)}, the journal ends at {_place(part.last)}"
            )
        if _is_hole(None if mark is None else mark.position, part.first, skips=stream in skipping):
            settled = "nothing" if mark is None else f"up to {_place(mark.position)}"
            return f"the journal has stream {stream!r} from {_place(part.first)} on, messages has {settled}"
    return None


def fault_of_chain(files: Iterable[JournalFile], *, skipping: Collection[str] = ()) -> str | None:
    """Return the fault between the journal's files, or None: each continues where the one before it ends."""
    last: dict[str, Position] = {}
    for file in files:
        for span in file.spans:
            first = Position(span.stream_id, span.first_seq, span.first_event)
            before = last.get(span.stream)
            if before is not None and _is_hole(before, first, skips=span.stream in skipping):
                held = f"has stream {span.stream!r} from {_place(first)} on"
                return f"{file.name} {held}, the files before it to {_place(before)}"
            last[span.stream] = Position(span.stream_id, span.last_seq, span.last_event)
    return None


def _is_hole(before: Position | None, first: Position, *, skips: bool) -> bool:
    """Whether rows are missing between a position and the next one that exists."""
    if before is None or before.stream_id < first.stream_id:
        return first.event_no > 1  # a stream begins with its own event
    if before.stream_id > first.stream_id:
        return False
    return first.event_no > before.event_no + 1 or (first.seq > before.seq + 1 and not skips)


def _place(position: Position) -> str:
    return f"sequence {position.seq} (event {position.event_no})"
