"""One consumer of a stream as a state machine: events and the time go in, effects come out; it does no IO.

Behaves as nats-server's consumers do, message for message. What it delivers is durable; whatever a client is told to
rely on (the answer to a double ack) waits until the state that says so is durable, which is the caller's business.
"""

from collections.abc import Collection, Sequence

from conf.limits import SEQUENCE_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.config.pull_requests import PullRefusal, check_level, check_limits, check_mode, parse_pull
from consumers.machine.ack_desk import AckDesk
from consumers.machine.consumer_core import ConsumerCore
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Ack, Effect, Gone, PullRequest, Status
from consumers.machine.push_side import flow_headers
from consumers.machine.read_position import chosen_subjects
from delta_store.values.stream_message import StreamMessage


class InvalidReset(Exception):
    """The consumer may not start over there; the text says why."""


class ConsumerMachine(ConsumerCore):
    """A pull or push consumer."""

    def pull(self, request: PullRequest, now_ns: int) -> list[Effect]:
        """Queue a request for messages, or answer it; one without a reply subject is passed over."""
        if not request.reply:
            return []
        try:
            check_level(request.header)
            check_mode(self.config)
            assert self._pull is not None
            spec = parse_pull(request.body)
            check_limits(spec, self.config)
            left = self._position.num_pending + len(self.pending.queue) if spec.no_wait else 0
            effects = self._pull.add(request.reply, spec, left=left, beat=self._last, now_ns=now_ns)
            if self._pull.used_ns >= now_ns:
                self.disuse.heard(now_ns)
            self.dirty = self.dirty or (spec.waits_long and request.reply not in self._recorded)
        except PullRefusal as refused:
            return [Status(request.reply, refused.code, refused.text)]
        return self._settle(effects, now_ns)

    def acks(self, acks: Sequence[Ack], now_ns: int) -> list[Effect]:
        """Take acks; an ack that also asks for the next message becomes a request."""
        self.disuse.heard(now_ns)
        desk = AckDesk(self, now_ns)
        effects: list[Effect] = []
        for one in desk.take(acks):
            effects += desk.finish()
            effects += self.pull(PullRequest(one.reply, one.body[len(b"+NXT") :]), now_ns)
        return self._settle(effects + desk.finish(), now_ns)

    def flow_reply(self, token: str, now_ns: int, header: bytes = b"") -> list[Effect]:
        """Take the answer to a flow control request; with ack policy ``flow_control`` it acks what it names."""
        if self._push is None or self._push.window is None or not self._push.window.answer(token):
            return []
        if self.config.ack_policy != "flow_control":
            return self._settle([], now_ns)
        cseq, seq = flow_headers(header)
        desk = AckDesk(self, now_ns)
        if seq:
            desk.through(cseq, seq)
        return self._settle(desk.finish(), now_ns)

    def wake(self, now_ns: int) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if 0 < self._pause_due <= now_ns:
            effects += self._set_pause(self.config.pause_until, now_ns)
        if 0 < self._search_due <= now_ns:
            effects += self._forget_removed(now_ns, force=True)
        if 0 < self.pending.due_ns <= now_ns:
            effects += self._forget_removed(now_ns, force=True)
            effects += self._given_up(spent) if (spent := self.pending.expire(now_ns)) else []
        if 0 < self.pin.due_ns <= now_ns:
            effects += self.pin.unpin(self.pin.group, "timeout")
        if self._pull is not None and (0 < self._pull.due_ns <= now_ns or 0 < self.disuse.due_ns <= now_ns):
            effects += self._pull.look(now_ns, beat=self._last, at_end=self._at_end(now_ns))
        if self._push is not None and 0 < self._push.beat_ns <= now_ns:
            effects += self._push.beat(now_ns, last=self._last, ack_pending=self.num_ack_pending)
        if 0 < self._pace.due_ns <= now_ns:
            self._pace.due_ns = 0
        if 0 < self.disuse.due_ns <= now_ns and self._unused(now_ns):
            self.disuse.put_off(now_ns)
            return [*effects, Gone()]
        return self._settle(effects, now_ns)

    def set_active(self, active: bool, now_ns: int) -> list[Effect]:  # noqa: FBT001 (the event is the value)
        """Somebody began or ceased to listen on the deliver subject."""
        if self._push is None:
            return []
        self._push.active = active
        if active:
            self.disuse.end()
        elif not self.disuse.due_ns:
            self.disuse.begin(now_ns)
        return self._settle([], now_ns)

    def upcoming(self, limit: int, now_ns: int) -> list[int]:
        """The sequences that :meth:`deliver` would like to have, in order; empty when it would deliver nothing."""
        again, self._offered = self._next(limit, now_ns)
        self._offered_removals = self._stream.removals
        return again + self._offered

    def deliver(self, messages: Sequence[StreamMessage], missing: Collection[int], now_ns: int) -> list[Effect]:
        """Send messages that :meth:`upcoming` named; what no longer fits is passed over."""
        effects = self._removed([seq for seq in missing if seq in self.pending.cseqs], now_ns) if missing else []
        if not self._taken() or self._paused(now_ns):
            return self._settle(effects, now_ns)
        run = self._run(messages, missing)
        if not len(run):
            return self._settle(effects, now_ns)
        run.first_cseq = self.pending.delivered[0] + 1
        if self._push is not None:
            taken, sent = self._push.serve(run, now_ns, ack_pending=self.num_ack_pending)
        else:
            assert self._pull is not None
            taken, sent = self._pull.serve(run, now_ns, ack_pending=self.num_ack_pending)
        effects += sent
        if taken:
            effects += self._sent(run, taken, now_ns)
        return self._settle(effects, now_ns)

    def stored(self, now_ns: int, *, purged_to: int = 0) -> list[Effect]:
        """The stream has grown or lost messages; a purge that left ``purged_to`` first takes pending ones silently."""
        pending, alive = self.pending, self._stream.index.live.sid_of
        if purged_to:
            gone = {seq: cseq for seq, cseq in pending.cseqs.items() if seq < purged_to or alive(seq) < 0}
            pending.ack_many(list(gone))
            self.last_acked_ns = now_ns if gone else self.last_acked_ns
            floor = max(gone.values(), default=0), purged_to - 1
            pending.advance(pending.delivered[0], purged_to - 1, acked=False, floor=floor)
            if self._position.next_seq < purged_to:
                self._position.move(purged_to)
            self.dirty = True
        effects = self._forget_removed(now_ns, force=False)
        if self._pull is not None and self._pull.waiting:
            effects += self._pull.forget_unwanted(now_ns)
        return self._settle(effects, now_ns)

    def reconfigure(self, config: MachineConfig, now_ns: int) -> list[Effect]:
        """Take another configuration, which has been checked."""
        before = self.config
        effects = self._set_pause(config.pause_until, now_ns)
        self.config = config
        self.pending.configure(config)
        self.pin.configure(config)
        if self._pull is not None:
            self._pull.config = config
        if self._push is not None:
            self._push.configure(config)
            if before.deliver_subject != config.deliver_subject and self.pending.cseqs:
                effects += self._given_up(self.pending.expire_all(now_ns))
        if before.ack_wait != config.ack_wait and self.pending.cseqs:
            self.pending.due_ns = now_ns + 1
        if before.rate_limit_bps != config.rate_limit_bps:
            self._pace.configure(config)
        if before.inactive_threshold != config.inactive_threshold:
            self.disuse.configure(config)
            self.disuse.begin(now_ns)
            if self.push_bound:
                self.disuse.end()
        if before.filters != config.filters:
            self._position.filter_by(chosen_subjects(config))
            self._offered = []
        self.dirty = True
        return self._settle(effects, now_ns)

    def pause(self, until_ns: int, now_ns: int) -> list[Effect]:
        """Deliver nothing until then; 0 or a time that is past ends the pause."""
        return self._settle(self._set_pause(until_ns, now_ns), now_ns)

    def reset(self, seq: int | None, now_ns: int) -> int:
        """Start over at a sequence, or behind the ack floor; returns where. Raises :class:`InvalidReset`."""
        config = self.config
        if not seq:
            seq = max(self.ack_floor[1], self.pending.reached[1]) + 1
        elif config.deliver_policy == "by_start_sequence" and seq < config.opt_start_seq:
            raise InvalidReset("below start seq")
        elif config.deliver_policy == "by_start_time" and seq < self._stream.index.seq_at_time(config.opt_start_time):
            raise InvalidReset("below start time")
        elif config.deliver_policy not in {"all", "by_start_sequence", "by_start_time"}:
            raise InvalidReset("not allowed")
        start = min(seq, SEQUENCE_MAX)
        self.pending.start(ConsumerState((0, start - 1), (0, start - 1)), now_ns)
        self._position.move(start)
        self._offered = []
        self.last_delivered_ns = self.last_acked_ns = 0
        self.dirty = True
        return seq

    def unpin(self, group: str, now_ns: int) -> list[Effect]:
        """Let another client of a priority group be pinned."""
        return self._settle(list(self.pin.unpin(group, "admin")), now_ns)

    def close(self, *, for_now: bool = False) -> list[Effect]:
        """The consumer ends, or (``for_now``) the process does, and may begin again: whoever waits is told."""
        if self._push is not None:
            self._push.active = False
        self.disuse.end()
        self._pause_due = self.pending.due_ns = 0
        if self._pull is None:
            return []
        if not for_now:
            return self._pull.close()
        self.sent_off = tuple(request.reply for request in self._pull.waiting)
        self.dirty = self.dirty or bool(self.sent_off)
        return self._pull.send_off()

    def state(self) -> ConsumerState:
        """All that must survive a restart; from here on :attr:`dirty` means newer changes."""
        pending = self.pending
        self.dirty = self.must_persist = False
        waiting = [one.reply for one in self._pull.waiting] if self._pull else []
        self._recorded = dict.fromkeys((*self.sent_off, *waiting))
        return ConsumerState(
            delivered=pending.delivered,
            ack_floor=pending.floor,
            skip_until=self._position.skip_until,
            last_delivered_ns=self.last_delivered_ns,
            last_acked_ns=self.last_acked_ns,
            pending={seq: (cseq, pending.sent[seq]) for seq, cseq in pending.cseqs.items()},
            redelivered=dict(pending.counts),
            sent_off=tuple(self._recorded),
        )

    def needs(self, seq: int) -> bool:
        """Whether this consumer wants a live message and is not through with it."""
        if not self.wants(seq):
            return False
        if seq in self.pending.counts:
            return True
        if seq <= self.ack_floor[1]:
            return False
        explicit = self.config.ack_policy == "explicit"
        return not explicit or seq >= self._position.next_seq or seq in self.pending.cseqs
