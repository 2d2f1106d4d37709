"""Pending messages that can't be acked any more: they left the stream, or ``max_deliver`` is reached."""

from collections.abc import Iterable
from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.machine import advisories
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.effects import Effect
from consumers.machine.pending import Spent, lose
from consumers.machine.stream_view import StreamView

_GONE: Final = "Unacknowledged message was deleted"
_SMALL: Final = 64
_SEARCH_NS: Final = 100_000_000
"""Shortest time between two searches of many pending messages for removed ones."""


class LostMessages:
    """The search for lost messages of one consumer, with one advisory for each."""

    __slots__ = ("_acks_all", "_consumer", "_progress", "_removals", "_searched_ns", "_stream", "due_ns")

    def __init__(self, config: MachineConfig, stream: StreamView, progress: ConsumerProgress) -> None:
        self._stream = stream
        self._progress = progress
        self._consumer = config.name
        self._acks_all = config.ack_policy == "all"
        self._removals = stream.removals
        self._searched_ns = 0
        self.due_ns = 0
        """Time (ns) of a search that was put off, 0 for never."""

    def given_up(self, spent: Iterable[Spent]) -> list[Effect]:
        """Return the advisories of messages that reached ``max_deliver``."""
        self._progress.dirty = True
        return [
            advisories.max_deliver(self._stream.name, self._consumer, stream_seq=seq, deliveries=deliveries)
            for seq, deliveries in spent
        ]

    def removed(self, seqs: list[int], now_ns: int) -> list[Effect]:
        """Drop pending messages that left the stream; return their advisories."""
        pending = self._progress.pending
        effects: list[Effect] = [
            advisories.terminated(
                advisories.Delivery(
                    self._stream.name, self._consumer, pending.cseqs[seq], seq, max(1, pending.counts.get(seq, 0))
                ),
                _GONE,
            )
            for seq in seqs
        ]
        if seqs:
            lose(pending, seqs, acks_all=self._acks_all)
            self._progress.acked(now_ns)
        return effects

    def search(self, now_ns: int, *, force: bool) -> list[Effect]:
        """Drop pending messages that left the stream; many are searched only now and then, unless ``force``."""
        stream, progress = self._stream, self._progress
        pending, removals = progress.pending, stream.removals
        if removals == self._removals and not (force and self.due_ns):
            return []
        many = len(pending.cseqs) + len(pending.counts) > _SMALL
        if many and not force and now_ns - self._searched_ns < _SEARCH_NS:
            self.due_ns = self._searched_ns + _SEARCH_NS
            self._removals = removals
            return []
        at_once, self._removals = removals - self._removals, removals
        self._searched_ns, self.due_ns = now_ns, 0
        index = stream.index
        alive = index.live.sid_of
        for seq in [seq for seq in pending.counts if seq not in pending.cseqs and alive(seq) < 0]:
            del pending.counts[seq]
            progress.dirty = True
        effects = self.removed([seq for seq in pending.cseqs if alive(seq) < 0], now_ns)
        purged = not index.msgs and at_once > 1 and stream.retention == "limits"
        if purged and index.last_seq > pending.delivered[1]:
            pending.advance(pending.delivered[0], index.last_seq, acked=True)
            progress.position.move(index.last_seq + 1)
            progress.acked(now_ns)
        return effects
