"""Message schedules (ADR-51) of one stream: which live messages are schedules, and when each is due. Pure.

Only streams with ``allow_msg_schedules`` have :class:`Schedules`. It follows from the messages' headers, so it can be
rebuilt from rows: a schedule's first due time is in its pattern, the next one in the message that it produced. A
schedule counts as long as it is its subject's last message.
"""

import re
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from delta_store.config.schedule_pattern import BadZone, Firing, firing, time_ns, zone
from delta_store.index.matching import last_by_subject
from delta_store.index.stream_index import StreamIndex

_FIELD: Final = re.compile(rb"\r\n(Nats-Schedule(?:r|-Next|-Source|-Time-Zone)?): *(.*?)(?=\r\n)", re.DOTALL)
_SPARE: Final = 1024
"""Entries of removed messages that are kept before they are cleaned up."""


class Scheduled(NamedTuple):
    """One schedule's next firing."""

    due_ns: int
    source: str
    """The subject whose last message's content is published, empty for the schedule's own."""


class Schedules:
    """The schedules of one stream."""

    __slots__ = ("_by_seq", "_heap")

    def __init__(self) -> None:
        self._by_seq: dict[int, Scheduled] = {}
        self._heap: list[tuple[int, int]] = []
        """(due time in ns, sequence); may hold outdated entries."""

    def note(self, index: StreamIndex, seq: int, headers: bytes | None, *, ts_ns: int) -> None:
        """Add a stored message; messages are added in order."""
        if not headers or b"\r\nNats-Schedule" not in headers:
            return
        fields = {name: value.decode(errors="replace") for name, value in reversed(_FIELD.findall(headers))}
        is_live = index.live.sid_of(seq) >= 0
        found = own_firing(fields, ts_ns=ts_ns, now_ns=ts_ns) if is_live else None
        if found is not None and found.due_ns:
            self._put(seq, Scheduled(found.due_ns, fields.get(b"Nats-Schedule-Source", "")))
            self._forget(index)
        following = time_ns(fields.get(b"Nats-Schedule-Next", ""))
        fired = last_by_subject(index, fields[b"Nats-Scheduler"]) if fields.get(b"Nats-Scheduler") else 0
        if following is not None and fired < seq and fired in self._by_seq:
            self._put(fired, self._by_seq[fired]._replace(due_ns=following))

    def holds(self, seq: int) -> bool:
        """Whether a live message is a schedule."""
        return seq in self._by_seq

    def due(self, index: StreamIndex, *, now_ns: int, limit: int) -> list[int]:
        """Remove the due schedules, at most ``limit``, and return them ascending; see :meth:`put_back`."""
        found: set[int] = set()
        while self._heap and self._heap[0][0] <= now_ns and len(found) < limit:
            due_ns, seq = heappop(self._heap)
            known = self._by_seq.get(seq)
            sid = index.live.sid_of(seq)
            if sid < 0:
                self._by_seq.pop(seq, None)
            elif known is not None and known.due_ns == due_ns and index.ends.last(sid) == seq:
                found.add(seq)
        return sorted(found)

    def put_back(self, seq: int) -> None:
        """Make a schedule that :meth:`due` returned due again."""
        heappush(self._heap, (self._by_seq[seq].due_ns, seq))

    def get(self, seq: int) -> Scheduled:
        """Return the next firing of a schedule that :meth:`due` returned."""
        return self._by_seq[seq]

    def next_ns(self) -> int:
        """Return when the next schedule may be due, ns; 0 when none will be."""
        return self._heap[0][0] if self._heap else 0

    def _put(self, seq: int, scheduled: Scheduled) -> None:
        self._by_seq[seq] = scheduled
        heappush(self._heap, (scheduled.due_ns, seq))

    def _forget(self, index: StreamIndex) -> None:
        """Drop the entries of removed messages once there are many."""
        if len(self._by_seq) > index.msgs + _SPARE:
            self._by_seq = {seq: one for seq, one in self._by_seq.items() if index.live.sid_of(seq) >= 0}
        if len(self._heap) > 2 * len(self._by_seq) + _SPARE:
            self._heap = [(one.due_ns, seq) for seq, one in self._by_seq.items()]
            heapify(self._heap)


def own_firing(fields: dict[bytes, str], *, ts_ns: int, now_ns: int) -> Firing | None:
    """Return when the schedule in a message's headers is due next; None when they hold no valid one."""
    pattern, named = fields.get(b"Nats-Schedule", ""), fields.get(b"Nats-Schedule-Time-Zone")
    if not pattern:
        return None
    try:
        where = zone(named) if named is not None else None
    except BadZone:
        return None
    return firing(pattern, where, ts_ns=ts_ns, now_ns=now_ns)
