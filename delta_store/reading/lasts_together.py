"""The last message of each subject of several streams, all of one instant: read from one pinned pair of versions.

Now is that instant for all streams, as the journal is one order of all; a cut is one of the past. A time is as far as
the messages' own times are.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from delta_store.entries.settled_log import Int64s, Snapshot
from delta_store.reading.cut_points import point_of
from delta_store.reading.kept_points import read_view
from delta_store.reading.point_in_time import Pinned, PointInTime, View, with_pinned
from delta_store.reading.read_plan import FoundLasts, WantedLasts
from delta_store.values.as_of import AsOf
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter

_NONE: Final = np.empty(0, np.int64)
_STEP: Final = 64
"""Messages that are read at a time, before their bytes are known."""


class _Lasts(NamedTuple):
    """What was found in one stream: sequences, and by what they are read."""

    view: View
    base: Snapshot
    seqs: Int64s


def lasts_together(past: PointInTime, wanted: WantedLasts, as_of: AsOf) -> FoundLasts:
    """Return a page of the last messages at a point; blocks.

    Raises ``NoSuchStream``, ``NoSuchCut``, ``PastHorizon`` or ``DamagedData``.
    """
    return with_pinned(past, lambda pinned: _page(past, wanted, _steps(past, wanted, as_of, pinned)))


def _steps(past: PointInTime, wanted: WantedLasts, as_of: AsOf, pinned: Pinned) -> Iterator[_Lasts]:
    """Iterate over what follows the page before, in parts."""
    last_stream, last_seq = wanted.after
    for stream, filters in wanted.streams:
        if stream < last_stream:
            continue
        found = read_view(past, past.view(stream, pinned), partial(_lasts, past, SubjectFilter(filters), as_of))
        seqs = found.seqs[found.seqs > last_seq] if stream == last_stream else found.seqs
        for start in range(0, len(seqs), _STEP):
            yield found._replace(seqs=seqs[start : start + _STEP])


def _lasts(past: PointInTime, subjects: SubjectFilter, as_of: AsOf, view: View) -> _Lasts:
    point = point_of(past, view, as_of)
    if point.seq <= 0:
        return _Lasts(view, view.settled, _NONE)
    return _Lasts(view, *past.lasts(view, subjects, point))


def _page(past: PointInTime, wanted: WantedLasts, steps: Iterator[_Lasts]) -> FoundLasts:
    found: list[tuple[str, StreamMessage]] = []
    room = wanted.bytes_max
    for view, base, seqs in steps:
        for message in read_view(past, view, partial(past.payloads, base, wanted=seqs)):
            room -= len(message.data) + len(message.headers or b"")
            if found and (room < 0 or len(found) == wanted.messages_max):
                return FoundLasts(found, more=True)
            found.append((view.stream, message))
    return FoundLasts(found, more=False)
