"""Pending deliveries: those that wait for their acks, their redelivery, and the ack floor.

Plain dicts in the order of the first deliveries, which is that of the stream sequences, so that a run of a thousand
messages is one ``update`` and an ack is two ``pop``. The ack floor is computed on demand.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.redelivery_queue import RedeliveryQueue

SLACK_NS: Final = 1_000_000
"""Delay of :meth:`Pending.expire`, so that a burst expires together (nats-server's ackWaitDelay)."""
_HOLES_MIN: Final = 1024
_FAR_NS: Final = 1 << 62
"""Latest begin of a wait, whatever delay a client requests."""


class Spent(NamedTuple):
    """A message that reached ``max_deliver``."""

    seq: int
    deliveries: int


class Pending:
    """The pending deliveries of one consumer."""

    __slots__ = (
        "_backoff", "_floor", "_holes", "_stuck", "_wait_ns", "counts", "cseqs", "delivered", "due_ns", "queue",
        "reached", "sent",
    )  # fmt: skip

    def __init__(self, config: MachineConfig) -> None:
        self.cseqs: dict[int, int] = {}
        """By stream sequence: consumer sequence of the first delivery."""
        self.sent: dict[int, int] = {}
        """By stream sequence: begin of the wait for its ack (ns)."""
        self.counts: dict[int, int] = {}
        """By stream sequence: number of redeliveries; kept when ``max_deliver`` is reached."""
        self.queue = RedeliveryQueue(self.counts)
        self.delivered = (0, 0)
        """Consumer and stream sequence of the last delivery."""
        self.due_ns = 0
        """Time (ns) at which :meth:`expire` is due, 0 for never."""
        self._floor = (0, 0)
        self.reached = (0, 0)
        """The arguments of the last :meth:`ack_through`."""
        self._stuck = False
        """Whether the message above the floor was given up without an ack: the floor stays until nothing is pending."""
        self._holes = 0
        self.configure(config)

    def configure(self, config: MachineConfig) -> None:
        """Apply the waits and limits of a (new) configuration."""
        self._wait_ns = config.ack_wait if config.ack_policy in {"explicit", "all"} else 0
        self._backoff = config.backoff if self._wait_ns else ()
        self.queue.max_deliver = max(0, config.max_deliver)

    def start(self, state: ConsumerState, now_ns: int) -> None:
        """Begin with a state; its pending deliveries wait from now on, or from a later time in the state."""
        self.cseqs = {seq: cseq for seq, (cseq, _) in sorted(state.pending.items())}
        self.sent = {seq: max(now_ns, state.pending[seq][1]) for seq in self.cseqs}
        self.counts.clear()
        self.counts.update(state.redelivered)
        self.queue.clear()
        self.delivered, self.due_ns, self._holes = state.delivered, 0, 0
        self._floor = self.reached = state.ack_floor
        self._stuck = bool(self.cseqs) and next(iter(self.cseqs.values())) != self._floor[0] + 1
        if self.cseqs:
            self._expect(now_ns + self.wait_of(0))

    @property
    def floor(self) -> tuple[int, int]:
        """The ack floor: consumer and stream sequence up to which everything is acked."""
        if self.cseqs and not self._stuck:
            seq = next(iter(self.cseqs))
            cseq = self.cseqs[seq]
            if cseq - 1 > self._floor[0]:
                self._floor = (cseq - 1, seq - 1)
        return self._floor

    @property
    def waits_until_ns(self) -> int:
        """Latest time (ns) at which a pending ack is due, 0 for none."""
        return max((at + self.wait_of(seq) for seq, at in self.sent.items()), default=-SLACK_NS) + SLACK_NS

    def wait_of(self, seq: int) -> int:
        """Return the time (ns) that the delivery of a sequence waits for its ack."""
        backoff = self._backoff
        return backoff[min(self.counts.get(seq, 0), len(backoff) - 1)] if backoff else self._wait_ns

    def add_run(self, seqs: Sequence[int], cseq: int, now_ns: int) -> None:
        """Add first deliveries with consecutive consumer sequences from ``cseq`` on."""
        self.cseqs.update(zip(seqs, range(cseq, cseq + len(seqs)), strict=True))
        self.sent.update(dict.fromkeys(seqs, now_ns))
        self._expect(now_ns + (self._backoff[0] if self._backoff else self._wait_ns))

    def advance(self, cseq: int, seq: int, *, acked: bool, floor: tuple[int, int] = (0, 0)) -> None:
        """Record deliveries up to a consumer and, unless 0, a stream sequence.

        The ack floor rises to them if ``acked``, and to ``floor`` in any case.
        """
        if any(floor):
            before = self.floor
            self._floor = max(before[0], floor[0]), max(before[1], floor[1])
        self.delivered = (cseq, max(self.delivered[1], seq))
        if acked:
            self._floor = self.delivered

    def add_again(self, seqs: Iterable[int], now_ns: int) -> None:
        """Move redeliveries from the queue back to waiting for their acks."""
        for seq in seqs:
            del self.queue.waiting[seq]
            self.sent[seq] = now_ns
            self.counts[seq] = self.counts.get(seq, 0) + 1
            self._expect(now_ns + self.wait_of(seq))

    def ack_many(self, seqs: Sequence[int]) -> None:
        """Ack sequences, which may repeat or be unknown."""
        cseqs, sent, counts = self.cseqs, self.sent, self.counts
        before = len(cseqs)
        for seq in seqs:
            if cseqs.pop(seq, 0):
                del sent[seq]
        if counts or self.queue:
            for seq in seqs:
                counts.pop(seq, 0)
                self.queue.drop(seq)
        self._holes += before - len(cseqs)
        if self._holes > len(cseqs) + _HOLES_MIN:
            self.cseqs, self.sent, self._holes = dict(cseqs), dict(sent), 0
        if before and not cseqs:
            self._floor, self._stuck = max(self._floor, self.delivered), False

    def ack_through(self, cseq: int, seq: int) -> list[int]:
        """Ack everything up to a sequence; return the sequences that were pending.

        The ack floor moves only if the sequence itself was pending.
        """
        self.reached = (min(cseq, self.delivered[0]), seq)
        floor = self.reached if seq in self.cseqs else self.floor
        gone = list(takewhile(lambda one: one <= seq, self.cseqs))
        self.ack_many(gone)
        for one in [one for one in self.counts if one <= seq]:
            del self.counts[one]
        self._floor, self._stuck = floor, True
        return gone

    def touch(self, seq: int, sent_ns: int) -> None:
        """Set the begin of a pending delivery's wait."""
        self.sent[seq] = sent_ns = max(0, min(sent_ns, _FAR_NS))
        self._expect(sent_ns + self.wait_of(seq))

    def give_up(self) -> list[Spent]:
        """Remove and return the spent ones in the queue."""
        spent = []
        for seq in self.queue.spent:
            deliveries = self.counts.get(seq, 0) + 1
            self.counts[seq] = deliveries
            spent.append(Spent(seq, deliveries))
        self.queue.spent.clear()
        self._drop([one.seq for one in spent])
        return spent

    def expire(self, now_ns: int) -> list[Spent]:
        """Queue the deliveries whose wait is over; return those that reached ``max_deliver``, which are removed."""
        if not self.cseqs or not self._wait_ns:
            self.due_ns = 0
            return []
        upcoming = self._backoff[-1] if self._backoff else self._wait_ns + SLACK_NS
        expired, spent = [], []
        for seq, sent_ns in self.sent.items():
            left = sent_ns + self.wait_of(seq) - now_ns
            if left > 0:
                upcoming = min(upcoming, left + SLACK_NS)
            elif seq not in self.queue:
                count = self.counts.get(seq, 0)
                if 0 < self.queue.max_deliver <= max(count, 1):
                    spent.append(Spent(seq, count + 1))
                    self.counts[seq] = max(count, 1)
                else:
                    expired.append(seq)
            if self._backoff:
                upcoming = min(upcoming, self._backoff[min(self.counts.get(seq, 0) + 1, len(self._backoff) - 1)])
        self._drop([one.seq for one in spent])
        self._queue_expired(expired, now_ns)
        self.due_ns = now_ns + upcoming if self.cseqs else 0
        return spent

    def expire_all(self, now_ns: int) -> list[Spent]:
        """Queue all pending deliveries, as if their wait were over; return as :meth:`expire`."""
        fresh = [seq for seq in self.cseqs if seq not in self.queue]
        limit = self.queue.max_deliver
        over = [seq for seq in fresh if limit and max(self.counts.get(seq, 0), 1) >= limit]
        spent = [Spent(seq, self.counts.get(seq, 0) + 1) for seq in over]
        self.counts.update((seq, max(self.counts.get(seq, 0), 1)) for seq in over)
        self._drop(over)
        self._queue_expired([seq for seq in fresh if seq in self.cseqs], now_ns)
        if self.cseqs:
            self.due_ns = now_ns + self._wait_ns + SLACK_NS
        return spent

    def _queue_expired(self, expired: list[int], now_ns: int) -> None:
        if not expired:
            return
        expired.sort()
        shift = now_ns - self.sent[expired[0]]
        for seq in expired:
            self.sent[seq] += shift
        self.queue.add(expired)

    def _drop(self, seqs: list[int]) -> None:
        """Remove sequences, but keep their counts."""
        if not self._stuck and next(iter(self.cseqs), 0) in seqs:
            self._floor, self._stuck = self.floor, True
        for seq in seqs:
            if self.cseqs.pop(seq, 0):
                del self.sent[seq]
                self._holes += 1
            self.queue.drop(seq)

    def _expect(self, due_ns: int) -> None:
        if self._wait_ns and (not self.due_ns or due_ns + SLACK_NS < self.due_ns):
            self.due_ns = due_ns + SLACK_NS


def lose(pending: Pending, seqs: Sequence[int], *, acks_all: bool) -> None:
    """Drop messages that left the stream; with ack policy ``all`` the floor passes the oldest of them."""
    oldest = list(takewhile(set(seqs).__contains__, pending.cseqs)) if acks_all else []
    if oldest:
        pending.ack_through(pending.cseqs[oldest[-1]], oldest[-1])
    pending.ack_many(seqs)
