"""The parts of a consumer and what they have in common; the events are in :mod:`consumers.machine.consumer_machine`."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.machine import consumer_advisories, message_advisories
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.delivery_pace import DeliveryPace
from consumers.machine.delivery_run import DeliveryRun, sequences
from consumers.machine.disuse import Disuse
from consumers.machine.effects import Done, Effect
from consumers.machine.pending import SLACK_NS, Pending, Spent, lose
from consumers.machine.priority_groups import Pin
from consumers.machine.pull_side import PullSide
from consumers.machine.push_side import PushSide
from consumers.machine.read_position import ReadPosition, chosen_subjects, start_position
from consumers.machine.stream_view import StreamView
from delta_store.index.matching import last_per_subject
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter

_GONE: Final = "Unacknowledged message was deleted"
_SMALL: Final = 64
_SEARCH_NS: Final = 100_000_000
"""Many pending messages are searched for removed ones at most that often."""


class ConsumerCore:
    """State of one consumer, what it shows of itself, and the rules that several events share."""

    def __init__(  # noqa: PLR0913 (its whole surroundings, by name)
        self,
        config: MachineConfig,
        *,
        created_ns: int,
        stream: StreamView,
        now_ns: int,
        new_id: Callable[[], str],
        interested: Callable[[bytes], bool],
        state: ConsumerState | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.stream_name = stream.name
        self.created_ns = created_ns
        self.dirty = state is None
        """Whether the state has changed since :meth:`state` was last taken."""
        self.must_persist = False
        """Whether an answer waits for the state to become durable."""
        self.last_delivered_ns = state.last_delivered_ns if state is not None else 0
        self.last_acked_ns = state.last_acked_ns if state is not None else 0
        self.pending = Pending(config)
        self.pin = Pin(stream.name, config, new_id)
        self._stream = stream
        self._push = PushSide(config, stream.name, now_ns=now_ns, new_id=new_id) if config.is_push else None
        self._pull = None if config.is_push else PullSide(config, self.pin, now_ns=now_ns, interested=interested)
        self._position = ReadPosition(stream, chosen_subjects(config), 1)
        self._offered: list[int] = []
        self._offered_removals = 0
        self._removals = stream.removals
        self._searched_ns = 0
        self._search_due = 0
        self.disuse = Disuse(config, now_ns)
        self.sent_off = state.sent_off if state is not None else ()
        """Reply subjects of requests that ended with a process, until they are called back."""
        self._recorded: dict[bytes, None] = {}
        """Reply subjects that the state named when it was last taken, each once."""
        self._pause_due = config.pause_until if config.pause_until > now_ns else 0
        self._begin(state, now_ns)
        self._pace = DeliveryPace(config, stream)

    # --- what it shows ---

    @property
    def num_pending(self) -> int:
        """Matching messages that have not been delivered once, with those that are not durable yet."""
        return self._position.num_pending + self._position.num_gathering

    @property
    def num_ack_pending(self) -> int:
        """Deliveries that wait for their acks."""
        return len(self.pending.cseqs)

    @property
    def num_redelivered(self) -> int:
        """Messages that have been delivered again and are not acked."""
        return 0 if self.config.max_deliver == 1 else len(self.pending.counts)

    @property
    def num_waiting(self) -> int:
        """Requests that wait for messages."""
        return len(self._pull.waiting) if self._pull is not None else 0

    @property
    def delivered(self) -> tuple[int, int]:
        """Consumer and stream sequence of the last delivery."""
        return self.pending.delivered

    @property
    def ack_floor(self) -> tuple[int, int]:
        """Consumer and stream sequence up to which all is acked."""
        return self.pending.floor

    @property
    def push_bound(self) -> bool:
        """Whether somebody listens on the deliver subject."""
        return self._push is not None and self._push.active

    @property
    def paused_until_ns(self) -> int:
        """The end of the pause that was last asked for, 0 for none; it may be over."""
        return self.config.pause_until

    @property
    def next_wake_ns(self) -> int:
        """When :meth:`consumers.machine.consumer_machine.ConsumerMachine.wake` is due, 0 for never."""
        dues = [self.pending.due_ns, self.disuse.due_ns, self._pause_due, self.pin.due_ns, self._pace.due_ns]
        dues.append(self._search_due)
        if self._pull is not None:
            dues.append(self._pull.due_ns)
        elif self._push is not None:
            dues.append(self._push.beat_ns)
        return min(filter(None, dues), default=0)

    @property
    def next_seq(self) -> int:
        """The first stream sequence that has not been delivered or passed over."""
        return self._position.next_seq

    @property
    def retention(self) -> str:
        """The stream's retention."""
        return self._stream.retention

    # --- shared rules ---

    @property
    def _last(self) -> tuple[int, int]:
        """The sequences that heartbeats name."""
        return self.pending.delivered[0], self._position.next_seq - 1

    def _begin(self, state: ConsumerState | None, now_ns: int) -> None:
        """Stand where the deliver policy says, or where a restart left off."""
        if state is None:
            start, firsts = start_position(self.config, self._stream)
            self._position.move(start)
            if firsts:
                self._position.start_with(firsts, start - 1)
            before = self._position.next_seq - 1
            self.pending.start(ConsumerState((0, before), (0, before)), now_ns)
            return
        self.pending.start(state, now_ns)
        self._position.move(state.delivered[1] + 1)
        if state.skip_until > state.delivered[1]:
            chosen = self._position.chosen or SubjectFilter.everything()
            firsts = last_per_subject(self._stream.index, chosen, state.skip_until)
            rest = [seq for seq in firsts if seq > state.delivered[1]]
            self._position.move(state.skip_until + 1)
            self._position.start_with(rest, state.skip_until)

    def wants(self, seq: int) -> bool:
        """Whether a live message matches the consumer's filters."""
        return self._position.wants(seq)

    def _paused(self, now_ns: int) -> bool:
        return self.config.pause_until > now_ns

    def _taken(self) -> bool:
        """Whether somebody would take a message."""
        return self._push.active if self._push is not None else bool(self._pull and self._pull.waiting)

    def _full(self) -> bool:
        """Whether as many acks are missing as may be."""
        most = self.config.max_ack_pending
        return self.config.ack_policy != "none" and 0 < most <= len(self.pending.cseqs)

    def _next(self, limit: int, now_ns: int) -> tuple[list[int], list[int]]:
        """What would be delivered next: redeliveries and first deliveries."""
        if not self._taken() or self._paused(now_ns) or self._pace.due_ns > now_ns:
            return [], []
        if self._push is not None:
            room = self._push.room(limit)
        else:
            assert self._pull is not None
            overflow = self.config.priority_policy == "overflow"
            left = self._position.num_pending + bool(self.pending.queue.waiting) if overflow else 0
            room = self._pull.room(limit, now_ns, left=left, ack_pending=len(self.pending.cseqs))
        if room <= 0:
            return [], []
        again = list(islice(self.pending.queue.waiting, room))
        room -= len(again)
        if self.config.ack_policy != "none" and self.config.max_ack_pending > 0:
            room = min(room, self.config.max_ack_pending - len(self.pending.cseqs))
        fresh = self._position.upcoming(room) if room > 0 else []
        return self._pace.cut(again, fresh)

    def _at_end(self, now_ns: int) -> bool:
        """Whether nothing can be delivered now, and nothing is only held back to be delivered at its pace."""
        again, fresh = self._next(1, now_ns)
        return not again and not fresh and self._pace.due_ns <= now_ns

    def _settle(self, effects: list[Effect], now_ns: int) -> list[Effect]:
        """Draw the conclusions of an event: give up what is spent, send off who may not wait, set the pace."""
        if self.pending.queue.spent and self._taken() and not self._paused(now_ns):
            effects += self._given_up(self.pending.give_up())
        if self._pace.limits and self._taken():
            again, fresh = self._next(1, now_ns)
            self._pace.expect(again or fresh, self._position, now_ns)
        if self._pull is not None and self._pull.no_waits:
            stalled = self._full() and not self._paused(now_ns) and not self.pending.queue.waiting
            if not stalled and self._at_end(now_ns):
                effects += self._pull.look(now_ns, beat=self._last, at_end=True)
        return effects

    def _given_up(self, spent: Iterable[Spent]) -> list[Effect]:
        """Tell about messages that were delivered as often as they may be."""
        self.dirty = True
        return [
            message_advisories.max_deliver(self.stream_name, self.name, stream_seq=seq, deliveries=deliveries)
            for seq, deliveries in spent
        ]

    def _forget_removed(self, now_ns: int, *, force: bool) -> list[Effect]:
        """Let go of pending messages that have left the stream."""
        removals = self._stream.removals
        if removals == self._removals and not (force and self._search_due):
            return []
        pending = self.pending
        many = len(pending.cseqs) + len(pending.counts) > _SMALL
        if many and not force and now_ns - self._searched_ns < _SEARCH_NS:
            self._search_due = self._searched_ns + _SEARCH_NS
            self._removals = removals
            return []
        at_once, self._removals = removals - self._removals, removals
        self._searched_ns, self._search_due = now_ns, 0
        alive = self._stream.index.live.sid_of
        for seq in [seq for seq in pending.counts if seq not in pending.cseqs and alive(seq) < 0]:
            del pending.counts[seq]
            self.dirty = True
        effects = self._removed([seq for seq in pending.cseqs if alive(seq) < 0], now_ns)
        index = self._stream.index
        purged = not index.msgs and at_once > 1 and self.retention == "limits"
        if purged and index.last_seq > pending.delivered[1]:
            reached = (pending.delivered[0], index.last_seq)
            pending.advance(*reached, acked=True)
            self._position.move(index.last_seq + 1)
            self.dirty, self.last_acked_ns = True, now_ns
        return effects

    def _removed(self, seqs: list[int], now_ns: int) -> list[Effect]:
        """These pending messages have left the stream: nobody can have them again."""
        pending = self.pending
        effects: list[Effect] = [
            message_advisories.terminated(
                message_advisories.Delivery(
                    self.stream_name, self.name, pending.cseqs[seq], seq, max(1, pending.counts.get(seq, 0))
                ),
                _GONE,
            )
            for seq in seqs
        ]
        if seqs:
            lose(pending, seqs, acks_all=self.config.ack_policy == "all")
            self.dirty, self.last_acked_ns = True, now_ns
        return effects

    def _set_pause(self, until_ns: int, now_ns: int) -> list[Effect]:
        """Take an end of the pause, or notice that it has come."""
        over = 0 < self._pause_due <= now_ns
        if until_ns == self.config.pause_until and not over:
            return []
        self.config = replace(self.config, pause_until=until_ns)
        self._pause_due = until_ns if until_ns > now_ns else 0
        return [consumer_advisories.paused(self.stream_name, self.name, until_ns=until_ns, now_ns=now_ns)]

    def _unused(self, now_ns: int) -> bool:
        """Whether nobody has used it for too long; else when to ask again is noted."""
        if self._push is not None:
            return not self._push.active and self.disuse.over(now_ns)
        assert self._pull is not None
        used_ns = now_ns if self._pull.waiting else self._pull.used_ns
        waits = (sent_ns + self.pending.wait_of(seq) for seq, sent_ns in self.pending.sent.items())
        return self.disuse.over(now_ns, used_ns=used_ns, unacked_ns=max(waits, default=-SLACK_NS) + SLACK_NS)

    def _run(self, messages: Sequence[StreamMessage], missing: Collection[int]) -> DeliveryRun:
        """What of the messages may be delivered now."""
        seqs, queue = sequences(messages), self.pending.queue.waiting
        again = 0
        while again < len(seqs) and seqs[again] in queue:
            again += 1
        fresh = list(seqs[again:])
        known = not missing and self._stream.removals == self._offered_removals
        if not known or fresh != self._offered[: len(fresh)]:
            alive = self._stream.index.live.sid_of
            offered = {seq for seq in self._offered if seq >= self.next_seq and alive(seq) >= 0}
            messages = [one for one in messages if one.seq in queue or one.seq in offered]
            seqs = sequences(messages)
            again = sum(seq in queue for seq in seqs)
            fresh = list(seqs[again:])
        room = len(fresh)
        if self.config.ack_policy != "none" and self.config.max_ack_pending > 0:
            room = max(0, min(room, self.config.max_ack_pending - len(self.pending.cseqs)))
        if room < len(fresh):
            messages, seqs = messages[: again + room], seqs[: again + room]
        counts = [self.pending.counts.get(seq, 0) + 2 for seq in seqs[:again]]
        prefix = len(self.stream_name.encode()) + len(self.name.encode()) + len("$JS.ACK...")
        left, bare = self._position.num_pending, self.config.headers_only
        return DeliveryRun(messages, seqs, counts=counts, left=left, prefix=prefix, headers_only=bare)

    def _sent(self, run: DeliveryRun, taken: int, now_ns: int) -> list[Effect]:
        """Book the first messages of a run as delivered."""
        again = run.seqs[: min(taken, run.again)]
        fresh = list(run.seqs[len(again) : taken])
        none = self.config.ack_policy == "none"
        self.pending.add_again(again, now_ns)
        if fresh and not none:
            self.pending.add_run(fresh, run.first_cseq + len(again), now_ns)
        self.pending.advance(run.first_cseq + taken - 1, fresh[-1] if fresh else 0, acked=none)
        self._position.passed(fresh)
        self._offered = self._offered[len(fresh) :]
        if self._pace.limits:
            self._pace.left(sum(run.sizes[:taken]), run.messages[taken - 1].ts_ns, now_ns)
        self.dirty, self.last_delivered_ns = True, now_ns
        return [Done(fresh)] if none and fresh and self.retention != "limits" else []
