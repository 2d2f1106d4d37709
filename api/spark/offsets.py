"""Offsets of a streaming query: how far each stream is read, as JSON objects in Spark's checkpoint. Pure.

    {"ORDERS": {"id": <stream id>, "seq": <last sequence read>}, …}

A first batch that was not finished is planned again after a restart, and Spark keeps only its end: so its end names the
sequence from which it began (``from``), and beginning at ``latest`` loses nothing either. ``initial`` marks an offset
that a query has just begun with, which such an end overrules.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

Offset = Mapping[str, Any]


class Place(NamedTuple):
    """How far one stream is read."""

    stream_id: int
    seq: int
    """The last sequence read; 0 for none."""


class BatchStep(NamedTuple):
    """What one batch reads of a stream: sequences behind ``after`` up to ``last``."""

    stream: str
    stream_id: int
    after: int
    last: int
    before_id: int | None
    """The incarnation that the batch before has read; None when the stream was not known."""


def initial(places: Mapping[str, Place]) -> dict[str, Any]:
    """Return the offset that a new query begins with."""
    return {name: {"id": place.stream_id, "seq": place.seq, "initial": True} for name, place in sorted(places.items())}


def advanced(start: Offset, ends: Mapping[str, Place], *, most: int | None) -> Offset:
    """Return the offset of the next batch: up to ``ends``, or ``most`` messages; ``start`` itself if there is none.

    What is waiting in each stream decides its share. A stream that ``start`` does not know is read from its beginning.
    """
    waiting = {name: place.seq - _place(start, name, place).seq for name, place in ends.items()}
    total = sum(max(number, 0) for number in waiting.values())
    if not total:
        return start
    shares = _shares({name: number for name, number in waiting.items() if number > 0}, most, total)
    after = dict(start)
    for name, share in shares.items():
        place = _place(start, name, ends[name])
        after[name] = {"id": place.stream_id, "seq": place.seq + share}
    for name, entry in start.items():
        if entry.get("initial"):
            now = after[name]
            after[name] = {"id": now["id"], "seq": now["seq"], "from": entry["seq"] if now["id"] == entry["id"] else 0}
    return {name: after[name] for name in sorted(after)}


def steps(start: Offset, end: Offset) -> list[BatchStep]:
    """Return what a batch reads, by stream; streams of which it reads nothing are left out."""
    found = []
    for name, entry in end.items():
        before = start.get(name)
        after, known = (0, None) if before is None else (int(before["seq"]), int(before["id"]))
        if "from" in entry and (before is None or before.get("initial")):
            after, known = int(entry["from"]), int(entry["id"])
        elif known != entry["id"]:
            after = 0
        elif after > entry["seq"] and before is not None and not before.get("initial"):
            raise ValueError(f"stream {name!r}: a batch from sequence {after} on ends at {entry['seq']}")
        if after < entry["seq"]:
            found.append(BatchStep(name, int(entry["id"]), after, int(entry["seq"]), known))
    return found


def _place(start: Offset, name: str, end: Place) -> Place:
    """Return how far a stream is read; an incarnation that is new is not read at all."""
    entry = start.get(name)
    return Place(end.stream_id, int(entry["seq"]) if entry is not None and entry["id"] == end.stream_id else 0)


def _shares(waiting: Mapping[str, int], most: int | None, total: int) -> dict[str, int]:
    """Divide ``most`` among the streams as messages wait in them, at least one each."""
    if most is None or total <= most:
        return dict(waiting)
    return {name: max(1, number * most // total) for name, number in waiting.items()}
