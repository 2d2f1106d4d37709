"""A consumer's deliveries: the next sequences, their hand-out once fetched, and the booking."""

from collections.abc import Collection, Sequence
from itertools import islice

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.delivery_pace import DeliveryPace
from consumers.machine.delivery_run import DeliveryRun, sequences
from consumers.machine.effects import Done, Effect
from consumers.machine.pause import Pause
from consumers.machine.pull_side import PullSide
from consumers.machine.push_side import PushSide
from consumers.machine.stream_view import StreamView
from delta_store.values.stream_message import StreamMessage


class DeliveryDesk:
    """The next deliveries: redeliveries, then first deliveries, within the limits of consumer and clients."""

    __slots__ = (
        "_acked", "_offered", "_pause", "_prefix", "_progress", "_removals", "_side", "_stream", "config", "pace",
    )  # fmt: skip

    def __init__(
        self,
        config: MachineConfig,
        stream: StreamView,
        progress: ConsumerProgress,
        *,
        side: PullSide | PushSide,
        pause: Pause,
    ) -> None:
        self.config = config
        self.pace = DeliveryPace(config, stream)
        self._stream = stream
        self._progress = progress
        self._side = side
        self._pause = pause
        self._acked = config.ack_policy != "none"
        self._prefix = len(stream.name.encode()) + len(config.name.encode()) + len("$JS.ACK...")
        self._offered: list[int] = []
        """The first deliveries that :meth:`upcoming` last named."""
        self._removals = 0
        """The stream's ``removals`` at that time."""

    @property
    def full(self) -> bool:
        """Whether ``max_ack_pending`` is reached."""
        return self._acked and 0 < self.config.max_ack_pending <= len(self._progress.pending.cseqs)

    def at_end(self, now_ns: int) -> bool:
        """Whether nothing can be delivered now, nor is held back by the pace; not while that is not known."""
        again, fresh = self._next(1, now_ns)
        return not again and not fresh and self.pace.due_ns <= now_ns and self._stream.is_open

    def set_pace(self, now_ns: int) -> None:
        """Compute when the next message may leave, if there is a pace and a receiver."""
        if self.pace.limits and self._side.taken:
            again, fresh = self._next(1, now_ns)
            self.pace.expect(again or fresh, self._progress.position, now_ns)

    def upcoming(self, limit: int, now_ns: int) -> list[int]:
        """Return the sequences to fetch for :meth:`hand_out`, in order; empty if nothing can be delivered."""
        again, self._offered = self._next(limit, now_ns)
        self._removals = self._stream.removals
        return again + self._offered

    def withdraw(self) -> None:
        """Withdraw the first deliveries last named."""
        self._offered = []

    def hand_out(self, messages: Sequence[StreamMessage], now_ns: int, *, missing: Collection[int]) -> list[Effect]:
        """Deliver messages that :meth:`upcoming` named, but those that no longer fit; ``missing`` left the stream."""
        run = self._run(messages, missing)
        if not len(run):
            return []
        run.first_cseq = self._progress.pending.delivered[0] + 1
        taken, effects = self._side.serve(run, now_ns)
        if taken:
            effects += self._book(run, taken, now_ns)
        return effects

    def _next(self, limit: int, now_ns: int) -> tuple[list[int], list[int]]:
        """Return the sequences to deliver next: redeliveries and first deliveries."""
        if not self._side.taken or self._pause.until_ns > now_ns or self.pace.due_ns > now_ns:
            return [], []
        if not self._stream.is_open:
            return [], []
        room = self._side.room(limit, now_ns)
        if room <= 0:
            return [], []
        pending, most = self._progress.pending, self.config.max_ack_pending
        again = list(islice(pending.queue.waiting, room))
        room -= len(again)
        if self._acked and most > 0:
            room = min(room, most - len(pending.cseqs))
        fresh = self._progress.position.upcoming(room) if room > 0 else []
        return self.pace.cut(again, fresh)

    def _run(self, messages: Sequence[StreamMessage], missing: Collection[int]) -> DeliveryRun:
        """Return the run of those messages that may be delivered now."""
        pending, position, most = self._progress.pending, self._progress.position, self.config.max_ack_pending
        seqs, queue = sequences(messages), pending.queue.waiting
        again = 0
        while again < len(seqs) and seqs[again] in queue:
            again += 1
        fresh = list(seqs[again:])
        known = not missing and self._stream.removals == self._removals
        if not known or fresh != self._offered[: len(fresh)]:
            alive = self._stream.index.live.sid_of
            offered = {seq for seq in self._offered if seq >= position.next_seq and alive(seq) >= 0}
            messages = [one for one in messages if one.seq in queue or one.seq in offered]
            seqs = sequences(messages)
            again = sum(seq in queue for seq in seqs)
            fresh = list(seqs[again:])
        room = len(fresh)
        if self._acked and most > 0:
            room = max(0, min(room, most - len(pending.cseqs)))
        if room < len(fresh):
            messages, seqs = messages[: again + room], seqs[: again + room]
        counts = [pending.counts.get(seq, 0) + 2 for seq in seqs[:again]]
        left, bare = position.num_pending, self.config.headers_only
        return DeliveryRun(messages, seqs, counts=counts, left=left, prefix=self._prefix, headers_only=bare)

    def _book(self, run: DeliveryRun, taken: int, now_ns: int) -> list[Effect]:
        """Book the first ``taken`` messages of a run as delivered."""
        pending = self._progress.pending
        again = run.seqs[: min(taken, run.again)]
        fresh = list(run.seqs[len(again) : taken])
        pending.add_again(again, now_ns)
        if fresh and self._acked:
            pending.add_run(fresh, run.first_cseq + len(again), now_ns)
        pending.advance(run.first_cseq + taken - 1, fresh[-1] if fresh else 0, acked=not self._acked)
        self._progress.position.passed(fresh)
        self._offered = self._offered[len(fresh) :]
        if self.pace.limits:
            self.pace.left(sum(run.sizes[:taken]), run.messages[taken - 1].ts_ns, now_ns)
        self._progress.delivered(now_ns)
        return [Done(fresh)] if fresh and not self._acked and self._stream.retention != "limits" else []
