"""The duplicate window: recent message ids, which make a repeated publish harmless.

An id is kept from its message's time for the length of the stream's ``duplicate_window``, whether or not the message is
still there. After a restart the window is filled from the rows' ids, so it loses only what the tables do.
"""

from collections import deque
from collections.abc import Iterable


class DedupWindow:
    """The sequences of message ids within the window; times only grow."""

    __slots__ = ("_ids", "_order", "_times", "window_ns")

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        """Length of the window, ns; 0 keeps no ids."""
        self._ids: dict[str, int] = {}
        self._order: deque[str] = deque()
        self._times: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._ids)

    def forget(self, now_ns: int) -> None:
        """Drop the ids that have left the window; call it before :meth:`find`."""
        until = now_ns - self.window_ns
        times, order, ids = self._times, self._order, self._ids
        while times and times[0] <= until:
            times.popleft()
            del ids[order.popleft()]

    def find(self, msg_id: str) -> int:
        """Return the sequence of an id, or 0."""
        return self._ids.get(msg_id, 0)

    def remember(self, msg_id: str, seq: int, ts_ns: int) -> None:
        """Add the id of a stored message; it must not be in the window already."""
        if self.window_ns > 0:
            self._ids[msg_id] = seq
            self._order.append(msg_id)
            self._times.append(ts_ns)

    def restore(self, entries: Iterable[tuple[str | None, int, int]]) -> None:
        """Add (id, sequence, time in ns) of replayed rows; an id that recurs after the window counts anew."""
        for msg_id, seq, ts_ns in entries:
            if not msg_id:
                continue
            self.forget(ts_ns)
            if msg_id not in self._ids:
                self.remember(msg_id, seq, ts_ns)

    def items(self) -> dict[str, tuple[int, int]]:
        """Return sequence and time (ns) by id."""
        return {msg_id: (self._ids[msg_id], ts_ns) for msg_id, ts_ns in zip(self._order, self._times, strict=True)}
