"""Points as users name them, found in a pinned view: the one way from an :class:`AsOf` to a :class:`Point`.

A cut is read at the versions that the view has pinned; it is older than what they have of its streams, or not there.
"""

from typing import Final

from delta_store.reading.kept_points import require_kept
from delta_store.reading.point_in_time import Pinned, Point, PointInTime, View
from delta_store.reading.state_at import END
from delta_store.values.as_of import AsOf
from delta_store.values.cut_record import CUTS, place_in
from delta_store.values.read_errors import DamagedData, NoSuchCut, NoSuchStream
from delta_store.values.subjects import SubjectFilter

_BEFORE: Final = Point(0)
"""Before the stream was created."""


def point_of(past: PointInTime, view: View, as_of: AsOf) -> Point:
    """Return the point of a stream. Raises ``NoSuchCut``, ``PastHorizon``, ``DamagedData`` or ``FileGone``."""
    if as_of.cut is None:
        return past.point(view, as_of.seq, as_of.before_ns)
    try:
        place = place_in(_cut(past, view, as_of.cut), view.stream, view.stream_id)
    except ValueError as error:
        raise DamagedData(f"cut {as_of.cut!r} in stream {CUTS!r}", str(error)) from error
    if place is None:
        return _BEFORE
    point = Point(place.seq, event_no=place.event_no)
    require_kept(past, view, point)
    return point


def place_of(view: View, point: Point) -> Point:
    """Return a point as a place in the order of the stream's rows, which means the same whatever happens later."""
    seq = min(point.seq, view.last_seq)
    happened = [event.event_no for event in view.events if event.seq == seq and point.includes(event)]
    return Point(seq, event_no=max(happened, default=0))


def _cut(past: PointInTime, view: View, name: str) -> bytes:
    """Return the message of a cut."""
    try:
        cuts = past.view(CUTS, Pinned(view.journal, view.settled))
    except NoSuchStream:
        raise NoSuchCut(name) from None
    found, _ = past.messages(cuts, SubjectFilter((name,)), Point(END), 1)
    if not found:
        raise NoSuchCut(name)
    return found[0].data
