"""One consumer of a stream as a state machine: events and the time go in, effects come out. Pure.

It behaves as nats-server's consumers, message for message. It delivers durable messages only; a reply to a double ack
waits until the state with that ack is durable, which the caller sees to.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from conf.limits import SEQUENCE_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.config.pull_requests import PullRefusal, check_level, check_limits, check_mode, parse_pull
from consumers.machine.ack_desk import AckDesk
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.delivery_desk import DeliveryDesk
from consumers.machine.disuse import Disuse
from consumers.machine.effects import Ack, Effect, Gone, PullRequest, Status
from consumers.machine.lost_messages import LostMessages
from consumers.machine.past_view import PastView
from consumers.machine.pause import Pause
from consumers.machine.priority_groups import Pin
from consumers.machine.pull_side import PullSide
from consumers.machine.push_side import PushSide, flow_headers
from consumers.machine.read_position import chosen_subjects
from consumers.machine.sent_off import SentOff
from consumers.machine.stream_view import StreamView
from delta_store.values.stream_message import StreamMessage


class InvalidReset(Exception):
    """A reset to this sequence is not allowed; the text has the reason."""


class ConsumerMachine:
    """A pull or push consumer; one of ``_pull`` and ``_push`` is set, and is the side to which the desk delivers."""

    def __init__(  # noqa: PLR0913  # its whole surroundings, by name
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
        self.progress = progress = ConsumerProgress(config, stream, state, now_ns)
        self.pin = Pin(stream.name, config, new_id)
        self.disuse = Disuse(config, now_ns)
        self.sent_off = SentOff(state.sent_off if state is not None else ())
        self._stream = stream
        self.past = stream if isinstance(stream, PastView) else None
        """The past state that it reads, None for the stream as it is now."""
        self._pull: PullSide | None = None
        self._push: PushSide | None = None
        self._side: PullSide | PushSide
        if config.is_push:
            self._side = self._push = PushSide(config, progress, stream.name, now_ns=now_ns, new_id=new_id)
        else:
            self._side = self._pull = PullSide(config, progress, self.pin, now_ns=now_ns, interested=interested)
        self._pause = Pause(stream.name, config, now_ns)
        self._desk = DeliveryDesk(config, stream, progress, side=self._side, pause=self._pause)
        self._lost = LostMessages(config, stream, progress)

    # --- what it shows ---

    @property
    def view(self) -> StreamView:
        """What it reads: its stream, or a past state of it."""
        return self._stream

    @property
    def num_pending(self) -> int:
        """Number of matching messages never delivered, those not durable yet included."""
        return self.progress.position.num_pending + self.progress.position.num_gathering

    @property
    def num_ack_pending(self) -> int:
        """Number of deliveries that wait for their acks."""
        return len(self.progress.pending.cseqs)

    @property
    def num_redelivered(self) -> int:
        """Number of messages that were redelivered and are not acked."""
        return 0 if self.config.max_deliver == 1 else len(self.progress.pending.counts)

    @property
    def num_waiting(self) -> int:
        """Number of waiting pulls."""
        return len(self._pull.waiting) if self._pull is not None else 0

    @property
    def delivered(self) -> tuple[int, int]:
        """Consumer and stream sequence of the last delivery."""
        return self.progress.pending.delivered

    @property
    def ack_floor(self) -> tuple[int, int]:
        """The ack floor: consumer and stream sequence up to which everything is acked."""
        return self.progress.pending.floor

    @property
    def push_bound(self) -> bool:
        """Whether the deliver subject has interest."""
        return self._push is not None and self._push.taken

    @property
    def attended(self) -> bool:
        """Whether a message has a receiver: a pull waits, or the deliver subject has interest."""
        return self._side.taken

    @property
    def next_wake_ns(self) -> int:
        """Time (ns) at which :meth:`wake` is due, 0 for never."""
        timers = self.progress.pending.due_ns, self.disuse.due_ns, self._pause.due_ns, self.pin.due_ns
        dues = (*timers, self._desk.pace.due_ns, self._lost.due_ns, self._side.due_ns)
        return min(filter(None, dues), default=0)

    # --- events ---

    def pull(self, request: PullRequest, now_ns: int) -> list[Effect]:
        """Queue a pull, or reply to it; one without a reply subject is ignored."""
        if not request.reply:
            return []
        try:
            check_level(request.header)
            check_mode(self.config)
            assert self._pull is not None
            spec = parse_pull(request.body)
            check_limits(spec, self.config)
            effects = self._pull.add(request.reply, spec, now_ns)
        except PullRefusal as refused:
            return [Status(request.reply, refused.code, refused.text)]
        if self._pull.used_ns >= now_ns:
            self.disuse.heard(now_ns)
        if spec.waits_long and not self.sent_off.records(request.reply):
            self.progress.dirty = True
        return self._settle(effects, now_ns)

    def acks(self, acks: Sequence[Ack], now_ns: int) -> list[Effect]:
        """Apply acks; a ``+NXT`` becomes a pull too."""
        self.disuse.heard(now_ns)
        desk = AckDesk(self.config, self._stream, self.progress, now_ns=now_ns)
        effects: list[Effect] = []
        for one in desk.take(acks):
            effects += desk.finish()
            effects += self.pull(PullRequest(one.reply, one.body[len(b"+NXT") :]), now_ns)
        return self._settle(effects + desk.finish(), now_ns)

    def flow_reply(self, token: str, now_ns: int, header: bytes = b"") -> list[Effect]:
        """Apply the reply to a flow control request; with ack policy ``flow_control`` it acks up to its sequences."""
        if self._push is None or self._push.window is None or not self._push.window.answer(token):
            return []
        if self.config.ack_policy != "flow_control":
            return self._settle([], now_ns)
        cseq, seq = flow_headers(header)
        desk = AckDesk(self.config, self._stream, self.progress, now_ns=now_ns)
        if seq:
            desk.through(cseq, seq)
        return self._settle(desk.finish(), now_ns)

    def wake(self, now_ns: int) -> list[Effect]:
        """Do everything that is due."""
        effects: list[Effect] = []
        pending, disuse, pace = self.progress.pending, self.disuse, self._desk.pace
        if 0 < self._pause.due_ns <= now_ns:
            effects += self._pause.set(self._pause.until_ns, now_ns)
        if 0 < self._lost.due_ns <= now_ns:
            effects += self._lost.search(now_ns, force=True)
        if 0 < pending.due_ns <= now_ns:
            effects += self._lost.search(now_ns, force=True)
            effects += self._lost.given_up(spent) if (spent := pending.expire(now_ns)) else []
        if 0 < self.pin.due_ns <= now_ns:
            effects += self.pin.unpin(self.pin.group, "timeout")
        if self._pull is not None and (0 < self._pull.due_ns <= now_ns or 0 < disuse.due_ns <= now_ns):
            effects += self._pull.look(now_ns, at_end=self._desk.at_end(now_ns))
        if self._push is not None and 0 < self._push.due_ns <= now_ns:
            effects += self._push.beat(now_ns)
        if 0 < pace.due_ns <= now_ns:
            pace.due_ns = 0
        if 0 < disuse.due_ns <= now_ns:
            used_ns = now_ns if self._side.taken else self._side.used_ns
            unacked_ns = pending.waits_until_ns if self._pull is not None else 0
            if disuse.over(now_ns, used_ns=used_ns, unacked_ns=unacked_ns):
                disuse.put_off(now_ns)
                return [*effects, Gone()]
        return self._settle(effects, now_ns)

    def set_active(self, active: bool, now_ns: int) -> list[Effect]:  # noqa: FBT001  # the event is the value
        """Apply a change of interest in the deliver subject."""
        if self._push is None:
            return []
        self._push.taken = active
        if active:
            self.disuse.end()
        elif not self.disuse.due_ns:
            self.disuse.begin(now_ns)
        return self._settle([], now_ns)

    def upcoming(self, limit: int, now_ns: int) -> list[int]:
        """Return the sequences to fetch for :meth:`deliver`, in order; empty if nothing can be delivered."""
        return self._desk.upcoming(limit, now_ns)

    def deliver(self, messages: Sequence[StreamMessage], missing: Collection[int], now_ns: int) -> list[Effect]:
        """Deliver messages that :meth:`upcoming` named, but those that no longer fit; ``missing`` left the stream."""
        effects: list[Effect] = []
        if missing:
            effects += self._lost.removed([seq for seq in missing if seq in self.progress.pending.cseqs], now_ns)
        if self._side.taken and not self._pause.holds(now_ns):
            effects += self._desk.hand_out(messages, now_ns, missing=missing)
        return self._settle(effects, now_ns)

    def stored(self, now_ns: int, *, purged_to: int = 0) -> list[Effect]:
        """Apply new and removed messages of the stream; a purge up to ``purged_to`` drops pending ones silently."""
        if purged_to:
            self.progress.pass_over(purged_to, now_ns)
        effects = self._lost.search(now_ns, force=False)
        if self._pull is not None and self._pull.waiting:
            effects += self._pull.forget_unwanted(now_ns)
        return self._settle(effects, now_ns)

    def reconfigure(self, config: MachineConfig, now_ns: int) -> list[Effect]:
        """Apply another configuration, which has been checked."""
        before, pending = self.config, self.progress.pending
        effects: list[Effect] = [*self._pause.set(config.pause_until, now_ns)]
        self.config = self._desk.config = config
        for part in (pending, self.pin, self._side):
            part.configure(config)
        if before.deliver_subject != config.deliver_subject and pending.cseqs:
            effects += self._lost.given_up(pending.expire_all(now_ns))
        if before.ack_wait != config.ack_wait and pending.cseqs:
            pending.due_ns = now_ns + 1
        if before.rate_limit_bps != config.rate_limit_bps:
            self._desk.pace.configure(config)
        if before.inactive_threshold != config.inactive_threshold:
            self.disuse.configure(config)
            self.disuse.begin(now_ns)
            if self.push_bound:
                self.disuse.end()
        if before.filters != config.filters:
            self.progress.position.filter_by(chosen_subjects(config))
            self._desk.withdraw()
        self.progress.dirty = True
        return self._settle(effects, now_ns)

    def pause(self, until_ns: int, now_ns: int) -> list[Effect]:
        """Pause until a time; 0 or a past time ends the pause."""
        effects: list[Effect] = [*self._pause.set(until_ns, now_ns)]
        self.config = replace(self.config, pause_until=until_ns)
        return self._settle(effects, now_ns)

    def reset(self, seq: int | None, now_ns: int) -> int:
        """Start over at a sequence, or behind the ack floor; return the sequence. Raises :class:`InvalidReset`."""
        config = self.config
        if not seq:
            seq = max(self.ack_floor[1], self.progress.pending.reached[1]) + 1
        elif config.deliver_policy == "by_start_sequence" and seq < config.opt_start_seq:
            raise InvalidReset("below start seq")
        elif config.deliver_policy == "by_start_time" and seq < self._stream.index.seq_at_time(config.opt_start_time):
            raise InvalidReset("below start time")
        elif config.deliver_policy not in {"all", "by_start_sequence", "by_start_time"}:
            raise InvalidReset("not allowed")
        self.progress.start_over(min(seq, SEQUENCE_MAX), now_ns)
        self._desk.withdraw()
        return seq

    def unpin(self, group: str, now_ns: int) -> list[Effect]:
        """Unpin a priority group's client, so that another is pinned."""
        return self._settle(list(self.pin.unpin(group, "admin")), now_ns)

    def close(self, *, for_now: bool = False) -> list[Effect]:
        """End the consumer or, with ``for_now``, this process's part in it; waiting pulls get a status."""
        self.disuse.end()
        self._pause.due_ns = self.progress.pending.due_ns = 0
        if self._push is not None:
            self._push.taken = False
        if self._pull is None:
            return []
        if for_now:
            replies = tuple(request.reply for request in self._pull.waiting)
            self.sent_off.take(replies)
            self.progress.dirty = self.progress.dirty or bool(replies)
        return self._pull.close(for_now=for_now)

    def state(self) -> ConsumerState:
        """Return the state to record; ``progress.dirty`` marks later changes from here on."""
        waiting = (request.reply for request in self._pull.waiting) if self._pull is not None else ()
        return self.progress.state(self.sent_off.record(waiting))

    def _settle(self, effects: list[Effect], now_ns: int) -> list[Effect]:
        """Conclude an event: give up spent deliveries, end pulls that may not wait, set the pace."""
        queue, desk = self.progress.pending.queue, self._desk
        if queue.spent and self._side.taken and not self._pause.holds(now_ns):
            effects += self._lost.given_up(self.progress.pending.give_up())
        if desk.pace.limits:
            desk.set_pace(now_ns)
        if self._pull is not None and self._pull.no_waits:
            stalled = desk.full and not self._pause.holds(now_ns) and not queue.waiting
            if not stalled and desk.at_end(now_ns):
                effects += self._pull.look(now_ns, at_end=True)
        return effects
