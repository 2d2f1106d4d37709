"""A consumer's progress in its stream: deliveries made, those that wait for acks, and the position."""

from collections.abc import Iterable

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.pending import Pending
from consumers.machine.read_position import ReadPosition, chosen_subjects, start_position
from consumers.machine.stream_view import StreamView
from delta_store.index.matching import last_per_subject
from delta_store.values.subjects import SubjectFilter


class ConsumerProgress:
    """Everything that a consumer's state records, but the waiting pulls."""

    __slots__ = (
        "_explicit",
        "_stream",
        "dirty",
        "last_acked_ns",
        "last_delivered_ns",
        "must_persist",
        "pending",
        "position",
    )

    def __init__(self, config: MachineConfig, stream: StreamView, state: ConsumerState | None, now_ns: int) -> None:
        """Begin by the deliver policy, or where ``state`` left off."""
        self.pending = Pending(config)
        self.position = ReadPosition(stream, chosen_subjects(config), 1)
        self.dirty = state is None
        """Whether it has changed since :meth:`state` was last called."""
        self.must_persist = False
        """Whether a reply waits for the state to become durable."""
        self.last_delivered_ns = state.last_delivered_ns if state is not None else 0
        self.last_acked_ns = state.last_acked_ns if state is not None else 0
        self._stream = stream
        self._explicit = config.ack_policy == "explicit"
        if state is None:
            self._begin(config, now_ns)
        else:
            self._go_on(state, now_ns)

    @property
    def last(self) -> tuple[int, int]:
        """The consumer and stream sequence in heartbeats."""
        return self.pending.delivered[0], self.position.next_seq - 1

    def needs(self, seq: int) -> bool:
        """Whether the consumer still needs a live message: it matches and is not done."""
        pending, position = self.pending, self.position
        if not position.wants(seq):
            return False
        if seq in pending.counts:
            return True
        if seq <= pending.floor[1]:
            return False
        return not self._explicit or seq >= position.next_seq or seq in pending.cseqs

    def acked(self, now_ns: int) -> None:
        """Record that messages were acked, or count as acked."""
        self.dirty, self.last_acked_ns = True, now_ns

    def delivered(self, now_ns: int) -> None:
        """Record that messages were delivered, or count as delivered."""
        self.dirty, self.last_delivered_ns = True, now_ns

    def pass_over(self, first_seq: int, now_ns: int) -> None:
        """Apply a purge that left ``first_seq`` first: earlier and removed messages are done, without advisories."""
        pending, alive = self.pending, self._stream.index.live.sid_of
        gone = {seq: cseq for seq, cseq in pending.cseqs.items() if seq < first_seq or alive(seq) < 0}
        pending.ack_many(list(gone))
        self.last_acked_ns = now_ns if gone else self.last_acked_ns
        floor = max(gone.values(), default=0), first_seq - 1
        pending.advance(pending.delivered[0], first_seq - 1, acked=False, floor=floor)
        if self.position.next_seq < first_seq:
            self.position.move(first_seq)
        self.dirty = True

    def look_again(self) -> None:
        """Find the position in a past state that was not known when this began."""
        self._place_behind(self.position.next_seq - 1, self.position.skip_until)

    def start_over(self, seq: int, now_ns: int) -> None:
        """Forget all deliveries and continue at a sequence."""
        self.position.move(seq)
        self._start(now_ns)
        self.last_delivered_ns = self.last_acked_ns = 0
        self.dirty = True

    def state(self, sent_off: Iterable[bytes]) -> ConsumerState:
        """Return the state to record; :attr:`dirty` marks later changes from here on."""
        pending = self.pending
        self.dirty = self.must_persist = False
        return ConsumerState(
            delivered=pending.delivered,
            ack_floor=pending.floor,
            skip_until=self.position.skip_until,
            last_delivered_ns=self.last_delivered_ns,
            last_acked_ns=self.last_acked_ns,
            pending={seq: (cseq, pending.sent[seq]) for seq, cseq in pending.cseqs.items()},
            redelivered=dict(pending.counts),
            sent_off=tuple(sent_off),
        )

    def _begin(self, config: MachineConfig, now_ns: int) -> None:
        start, firsts = start_position(config, self._stream)
        self.position.move(start)
        if firsts:
            self.position.start_with(firsts, start - 1)
        self._start(now_ns)

    def _start(self, now_ns: int) -> None:
        """Begin with nothing pending; everything before the position counts as delivered and acked."""
        before = 0, self.position.next_seq - 1
        self.pending.start(ConsumerState(before, before), now_ns)

    def _go_on(self, state: ConsumerState, now_ns: int) -> None:
        self.pending.start(state, now_ns)
        self._place_behind(state.delivered[1], state.skip_until)

    def _place_behind(self, delivered: int, skip_until: int) -> None:
        position = self.position
        position.move(delivered + 1)
        if skip_until <= delivered:
            return
        if not self._stream.is_open:
            position.skip_until = skip_until
            return
        firsts = last_per_subject(self._stream.index, position.chosen or SubjectFilter.everything(), skip_until)
        position.move(skip_until + 1)
        position.start_with([seq for seq in firsts if seq > delivered], skip_until)
