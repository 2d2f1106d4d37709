"""Consumers under random events, restarts included: what must hold whatever happens.

A restart builds the consumer anew from the last state that was kept, as a gateway does after a crash; acks count as
durable when a state was kept after them.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Ack, Deliver, Effect, PullRequest, Reply
from tests.unit.consumers.consumer_world import SECOND, Stream, World

ACK_WAIT = 10 * SECOND
_SHARES = [
    {},
    {"filter_subject": "a"},
    {"filter_subjects": ("a", "c"), "backoff": (ACK_WAIT, 2 * ACK_WAIT)},
    {"priority_policy": "prioritized", "priority_groups": ("g",)},
]


class OneConsumer:
    """A consumer with the book that is kept about it."""

    def __init__(self, stream: Stream, config: dict[str, Any], max_ack_pending: int) -> None:
        explicit = {"ack_policy": "explicit", "ack_wait": ACK_WAIT, "max_waiting": 8}
        self.config = {**explicit, **config, "max_ack_pending": max_ack_pending}
        self.world = World(stream, **self.config)
        self.asked: list[int] = []
        """What the consumer last asked for."""
        self.most_pending = max_ack_pending
        """How many deliveries may wait for acks: more than configured only while an older, higher limit lets them."""
        self.kept = self.world.consumer.state().encode()
        self.sent_ns: dict[int, int] = {}
        self.refused: set[int] = set()
        self.acked: set[int] = set()
        self.durable: set[int] = set()
        self.answers: list[bytes] = []
        self.first: dict[int, tuple[int, int]] = {}
        self.floor = 0
        self.trace: list[object] = []

    def note(self, effects: list[Effect]) -> None:
        """Check deliveries against the book, and write them down."""
        self.trace += effects
        for one in effects:
            if isinstance(one, Reply):
                self.answers.append(one.subject)
            elif isinstance(one, Deliver):
                for message, cseq, count in zip(one.messages, one.consumer_seqs, one.counts, strict=True):
                    self._delivered(message.seq, cseq, count)

    def keep(self) -> None:
        """The state becomes durable, and with it all acks so far."""
        self.kept = self.world.consumer.state().encode()
        self.durable |= self.acked

    def restart(self) -> None:
        """Crash, and go on with the last state that was kept."""
        now = self.world.now
        self.world = World(self.world.stream, now=now, state=ConsumerState.decode(self.kept), **self.config)
        assert self.world.consumer.ack_floor[1] >= 0
        self.floor = self.world.consumer.ack_floor[1]
        self.acked = set(self.durable)
        self.asked = []
        self.most_pending = max(self.config["max_ack_pending"], self.world.consumer.num_ack_pending)
        self.sent_ns.clear()
        self.refused.clear()

    def limit(self, max_ack_pending: int) -> None:
        """Let so many deliveries wait for acks from now on."""
        consumer = self.world.consumer
        self.config["max_ack_pending"] = max_ack_pending
        self.most_pending = max(max_ack_pending, consumer.num_ack_pending)
        self.note(consumer.reconfigure(replace(consumer.config, max_ack_pending=max_ack_pending), self.world.now))

    def _delivered(self, seq: int, cseq: int, count: int) -> None:
        assert seq <= self.world.stream.durable_seq
        assert seq not in self.acked, f"{seq} came again after its ack"
        since = self.sent_ns.get(seq)
        if since is not None:
            assert count > 1
            assert seq in self.refused or self.world.now >= since + ACK_WAIT, f"{seq} came again too early"
        self.refused.discard(seq)
        self.sent_ns[seq] = self.world.now
        self.first[seq] = (cseq, count)


class ConsumerSimulation(RuleBasedStateMachine):
    """Two consumers of one stream."""

    @initialize(shares=st.tuples(st.sampled_from(_SHARES), st.sampled_from(_SHARES)), most=st.integers(1, 5))
    def begin(self, shares: tuple[dict[str, Any], dict[str, Any]], most: int) -> None:
        """Make the stream and its consumers."""
        self.stream = Stream()
        for subject in "aabcacba":
            self.stream.store(subject)
        self.consumers = [OneConsumer(self.stream, config, most) for config in shares]

    @rule(subject=st.sampled_from("abc"), durable=st.booleans())
    def publish(self, subject: str, durable: bool) -> None:
        """A message is stored, maybe not durably yet."""
        self.stream.store(subject, now_ns=self.consumers[0].world.now, durable=durable)
        self._all(lambda world: world.consumer.stored(world.now))

    @rule()
    def commit(self) -> None:
        """All that is stored becomes durable."""
        self.stream.durable_seq = self.stream.index.last_seq
        self._all(lambda world: world.consumer.stored(world.now))

    @rule(
        which=st.integers(0, 1),
        number=st.integers(1, 4),
        no_wait=st.booleans(),
        priority=st.integers(0, 2),
        at_once=st.booleans(),
    )
    def pull(self, which: int, number: int, no_wait: bool, priority: int, at_once: bool) -> None:
        """A client asks for messages."""
        one = self.consumers[which]
        group = f',"group":"g","priority":{priority}' if "priority_groups" in one.config else ""
        body = f'{{"batch":{number},"no_wait":{"true" if no_wait else "false"},"expires":5000000000{group}}}'
        one.note(one.world.consumer.pull(PullRequest(b"r%d" % priority, body.encode()), one.world.now))
        if at_once:
            one.note(one.world.run())

    @rule(
        which=st.integers(0, 1),
        limit=st.integers(1, 5),
        given=st.integers(0, 5),
        late=st.booleans(),
        most=st.none() | st.integers(1, 5),
    )
    def deliver(self, which: int, limit: int, given: int, late: bool, most: int | None) -> None:
        """The engine hands over some of what the consumer asked for, maybe under other limits, maybe once more."""
        one = self.consumers[which]
        world = one.world
        if not late:
            one.asked = world.consumer.upcoming(limit, world.now)
        if most is not None:
            one.limit(most)
        alive = [seq for seq in one.asked if self.stream.index.live.sid_of(seq) >= 0]
        messages = [self.stream.messages[seq] for seq in alive[:given]]
        one.note(world.consumer.deliver(messages, set(one.asked) - set(alive), world.now))

    @rule(
        which=st.integers(0, 1), data=st.data(), body=st.sampled_from([b"", b"", b"+ACK", b"-NAK", b"+WPI", b"+TERM"])
    )
    def ack(self, which: int, data: st.DataObject, body: bytes) -> None:
        """A client acks, refuses or prolongs something that it was given."""
        one = self.consumers[which]
        if not one.first:
            return
        seq = data.draw(st.sampled_from(sorted(one.first)))
        cseq, count = one.first[seq]
        pending = seq in one.world.consumer.progress.pending.cseqs
        known = seq < one.world.consumer.progress.position.next_seq
        one.note(one.world.consumer.acks([Ack(seq, cseq, count, body, b"ok")], one.world.now))
        if body in (b"", b"+ACK", b"+TERM") and known:
            assert one.answers.pop() == b"ok"
            one.acked.add(seq)
            assert one.world.consumer.progress.must_persist or not one.world.consumer.progress.dirty
        elif body == b"-NAK" and pending:
            one.refused.add(seq)
        elif body == b"+WPI" and pending and seq not in one.world.consumer.progress.pending.queue:
            one.sent_ns[seq] = one.world.now

    @rule(seconds=st.sampled_from([0.1, 1, 5, 11]))
    def wait(self, seconds: float) -> None:
        """Time passes, timer by timer."""
        for one in self.consumers:
            world, end = one.world, one.world.now + int(seconds * SECOND)
            while 0 < (due := world.consumer.next_wake_ns) <= end:
                assert due > world.now - SECOND
                world.now = max(world.now, due)
                one.note(world.consumer.wake(world.now))
            world.now = end

    @rule(which=st.integers(0, 1))
    def keep(self, which: int) -> None:
        """The state is kept."""
        self.consumers[which].keep()

    @rule(which=st.integers(0, 1), kept=st.sampled_from([True, True, False]), at_once=st.booleans())
    def restart(self, which: int, kept: bool, at_once: bool) -> None:
        """The gateway crashes and starts again, maybe right after it kept the state, and maybe clients ask at once."""
        one = self.consumers[which]
        if kept:
            one.keep()
        one.restart()
        if at_once:
            one.note(one.world.pull(b"3"))

    @precondition(lambda self: self.stream.index.msgs > 0)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """A message leaves the stream."""
        seqs = self.stream.index.live.sequences(1, self.stream.durable_seq).tolist()
        if seqs:
            self.stream.remove(data.draw(st.sampled_from(seqs)))
            self._all(lambda world: world.consumer.stored(world.now))

    @invariant()
    def bounds_hold(self) -> None:
        """Floors never move back, limits are kept, and counts are true."""
        for one in getattr(self, "consumers", []):
            consumer, stream = one.world.consumer, self.stream
            assert consumer.num_ack_pending <= one.most_pending
            one.most_pending = max(one.config["max_ack_pending"], consumer.num_ack_pending)
            assert consumer.ack_floor[1] >= one.floor
            one.floor = consumer.ack_floor[1]
            live = stream.index.live.sequences(consumer.progress.position.next_seq, stream.index.last_seq).tolist()
            assert consumer.num_pending == sum(consumer.progress.position.wants(seq) for seq in live)

    def teardown(self) -> None:
        """In the end, with patience, every message that is left reaches each consumer that wants it."""
        if not hasattr(self, "consumers"):
            return
        self.commit()
        for one in self.consumers:
            world = one.world
            for _ in range(200):
                group = ',"group":"g"' if "priority_groups" in one.config else ""
                one.note(world.consumer.pull(PullRequest(b"r", f'{{"batch":50{group}}}'.encode()), world.now))
                for effect in world.run():
                    one.note([effect])
                for seq in list(world.consumer.progress.pending.cseqs):
                    one.note(world.consumer.acks([Ack(seq, world.consumer.delivered[0], 1, b"")], world.now))
                    one.acked.add(seq)
                world.now += 11 * SECOND
                world.consumer.wake(world.now)
                if not world.consumer.num_pending and not world.consumer.num_ack_pending:
                    break
            wanted = self.stream.index.live.sequences(1, self.stream.durable_seq).tolist()
            lost = {seq for seq in wanted if world.consumer.progress.position.wants(seq)} - one.acked
            assert not lost, f"never delivered: {sorted(lost)}"

    def _all(self, event: Callable[[World], list[Effect]]) -> None:
        for one in self.consumers:
            one.note(event(one.world))


TestConsumerSimulation = ConsumerSimulation.TestCase
TestConsumerSimulation.settings = settings(max_examples=250, stateful_step_count=50, deadline=None)


def _trace(seed: int) -> list[object]:
    """What two consumers said in a run of random events."""
    rng = random.Random(seed)
    stream = Stream()
    consumers = [OneConsumer(stream, {}, 3), OneConsumer(stream, {"filter_subject": "a", "sample_freq": "40"}, 2)]
    for _ in range(400):
        one = rng.choice(consumers)
        world, choice = one.world, rng.randrange(6)
        if choice == 0:
            stream.store(rng.choice("ab"), now_ns=world.now)
            one.trace += world.consumer.stored(world.now)
        elif choice == 1:
            one.trace += world.pull(b"%d" % rng.randrange(1, 4))
        elif choice == 2 and stream.index.msgs:
            seq = rng.randrange(1, stream.index.last_seq + 1)
            one.trace += world.ack(seq, rng.choice([b"", b"+TERM"]), reply=b"ok")
        elif choice == 3:
            one.trace += world.pass_time(rng.choice([0.5, 12]))
        elif choice == 4:
            one.keep()
        elif rng.random() < 0.1:
            one.restart()
    return [repr(effect) for one in consumers for effect in one.trace]


def test_the_same_seed_gives_the_same_trace() -> None:
    """Nothing but the events decides what a consumer does."""
    for seed in range(5):
        trace = _trace(seed)
        assert len(trace) > 50
        assert trace == _trace(seed)
