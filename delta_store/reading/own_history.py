"""Whether a state of a stream lies within the history that its metadata asks for. Pure.

A state is kept for so long after it was the present one: what follows it, a message or a removal, ends it. So nothing
is forgotten of a stream to which nothing happens.
"""

import json
from collections.abc import Iterable

from delta_store.config.history import HISTORY, own_history
from delta_store.reading.state_at import EventRow, Place, removed_between
from delta_store.values.records import Kind

_NAMED = HISTORY.encode()


def history_of(events: Iterable[EventRow]) -> int | None:
    """Return a stream's own history by its newest configuration, in ns; None for none."""
    newest = max(event for event in events if event.kind == Kind.STREAM).data
    return own_history(json.loads(newest)["config"].get("metadata") or {}) if _NAMED in newest else None


def is_over(point: Place, start: Place, events: Iterable[EventRow]) -> bool:
    """Whether the state at a point was no longer the present one at ``start``, a point that is a time."""
    return point[0] < start[0] or (point[0] == start[0] and removed_between(point, start, events))
