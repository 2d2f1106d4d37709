"""Pull accounting against a model of the server, with a virtual clock: random histories of all that can happen."""

from collections import deque
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from consumers.client.pull import ConsumeOptions, Pull
from consumers.client.pull_state import Event, Phase, PullState
from consumers.client.pull_status import PullStatus

EXPIRES, HEARTBEAT = 10.0, 1.0
LARGEST = 50


@dataclass
class Waiting:
    """A pull as the server has it."""

    pull: Pull
    messages: int
    bytes: int
    expires_at: float
    beats_at: float


class Server:
    """Serves pulls as nats-server does; what it sends waits on the wire."""

    def __init__(self) -> None:
        self.stored: deque[int] = deque()
        self.waiting: dict[int, Waiting] = {}
        self.wire: deque[int | tuple[int, PullStatus]] = deque()
        self.refusing: PullStatus | None = None
        self.forgot = False
        """Whether messages or pulls were lost without a word: then credit may be too large for a while."""

    def pull(self, pull: Pull, now: float) -> None:
        """A request arrives."""
        if self.refusing is not None:
            self.wire.append((pull.number, self.refusing))
            return
        self.waiting[pull.number] = Waiting(pull, pull.batch, pull.max_bytes, now + pull.expires, now + HEARTBEAT)

    def end(self, number: int, code: int, text: str) -> None:
        """End a pull with the figures that it has left."""
        left = self.waiting.pop(number)
        self.wire.append((number, PullStatus(code, text, left.messages, left.bytes)))

    def serve(self, number: int, now: float) -> None:
        """Send the next message to one of the pulls."""
        waiting = self.waiting[number]
        limited = waiting.pull.max_bytes > 0
        if limited and self.stored[0] > waiting.bytes:
            self.end(number, 409, "Message Size Exceeds MaxBytes")
            return
        size = self.stored.popleft()
        self.wire.append(size)
        waiting.messages -= 1
        waiting.beats_at = now + HEARTBEAT
        if limited:
            waiting.bytes -= size
        if waiting.messages == 0:
            del self.waiting[number]
        elif limited and waiting.bytes == 0:
            self.end(number, 409, "Batch Completed")

    def pass_time(self, now: float) -> None:
        """Expire pulls and send heartbeats."""
        for number, waiting in list(self.waiting.items()):
            if now >= waiting.expires_at:
                self.end(number, 408, "Request Timeout")
            elif now >= waiting.beats_at:
                waiting.beats_at = now + HEARTBEAT
                self.wire.append((number, PullStatus(100, "Idle Heartbeat")))


class Consuming(RuleBasedStateMachine):
    """A client's accounting, a server, and a clock."""

    @initialize(
        by_bytes=st.booleans(),
        capacity=st.integers(1, 12),
        threshold=st.floats(0, 1),
    )
    def begin(self, by_bytes: bool, capacity: int, threshold: float) -> None:
        """Choose how the buffer is limited; every message fits into it."""
        if by_bytes:
            capacity = LARGEST * capacity
            options = ConsumeOptions(max_bytes=capacity, threshold_bytes=int(threshold * capacity), expires=EXPIRES,
                                     idle_heartbeat=HEARTBEAT)  # fmt: skip
        else:
            options = ConsumeOptions(max_messages=capacity, threshold_messages=int(threshold * capacity),
                                     expires=EXPIRES, idle_heartbeat=HEARTBEAT)  # fmt: skip
        self.by_bytes = by_bytes
        self.state = PullState(options.plan())
        self.server = Server()
        self.now = 0.0
        self.buffer: deque[int] = deque()
        self.connected = True

    def _pump(self) -> None:
        while self.connected and (pull := self.state.pull(self.now)) is not None:
            assert self.state.phase is Phase.OPEN
            assert pull.batch > 0
            assert not self.by_bytes or pull.max_bytes > 0
            self.server.pull(pull, self.now)

    def _receive_one(self) -> None:
        item = self.server.wire.popleft()
        if isinstance(item, int):
            self.state.received(item, self.now)
            self.buffer.append(item)
        else:
            problem = self.state.status(item[0], item[1], self.now)
            assert problem is None or not problem.terminal

    def _receive_all(self) -> None:
        while self.server.wire:
            self._receive_one()

    @rule(size=st.integers(1, LARGEST))
    def publish(self, size: int) -> None:
        """The stream grows."""
        self.server.stored.append(size)

    @rule(data=st.data(), count=st.integers(1, 5))
    def serve(self, data: st.DataObject, count: int) -> None:
        """The server sends a few messages, to whichever pulls it likes."""
        for _ in range(count):
            if self.connected and self.server.stored and self.server.waiting:
                self.server.serve(data.draw(st.sampled_from(sorted(self.server.waiting))), self.now)

    @rule(count=st.integers(1, 8))
    def receive(self, count: int) -> None:
        """Some of what is on the wire arrives."""
        for _ in range(min(count, len(self.server.wire))):
            self._receive_one()

    @rule(count=st.integers(1, 8))
    def hand_over(self, count: int) -> None:
        """The program takes some."""
        for _ in range(min(count, len(self.buffer))):
            self.state.handed_over(self.buffer.popleft())

    @rule()
    def ask(self) -> None:
        """The client sends what is due."""
        self._pump()

    @rule(steps=st.integers(1, 30))
    def wait(self, steps: int) -> None:
        """Time passes; heartbeats arrive in time."""
        for _ in range(steps):
            self.now += HEARTBEAT / 2
            if self.connected:
                self.server.pass_time(self.now)
                self._receive_all()
            lost_pulls = self.state.tick(self.now)
            assert lost_pulls is None or self.server.forgot, lost_pulls

    @rule(
        status=st.sampled_from(
            [None, PullStatus(503), PullStatus(409, "Exceeded MaxRequestBatch of 1"), PullStatus(429, "New")]
        )
    )
    def refuse(self, status: PullStatus | None) -> None:
        """From now on pulls are refused, or no longer."""
        self.server.refusing = status

    @precondition(lambda self: self.connected)
    @rule()
    def forget(self) -> None:
        """The server restarts behind an unbroken connection: its pulls are gone without a word."""
        self.server.forgot = self.server.forgot or bool(self.server.waiting)
        self.server.waiting.clear()

    @precondition(lambda self: self.connected)
    @rule()
    def lose_messages(self) -> None:
        """Messages on their way are dropped."""
        kept = [item for item in self.server.wire if not isinstance(item, int)]
        self.server.forgot = self.server.forgot or len(kept) < len(self.server.wire)
        self.server.wire = deque(kept)

    @precondition(lambda self: self.connected)
    @rule(noticed=st.booleans())
    def disconnect(self, noticed: bool) -> None:
        """The connection breaks; the client may notice only that it is back."""
        self.connected = False
        self.server.waiting.clear()
        self.server.wire.clear()
        self.server.forgot = False
        if noticed:
            self.state.on(Event.DISCONNECTED)
        else:
            self.reconnect()

    @precondition(lambda self: not self.connected)
    @rule()
    def reconnect(self) -> None:
        """The connection is back."""
        self.connected = True
        self.state.on(Event.RECONNECTED)

    @invariant()
    def the_buffer_is_bounded(self) -> None:
        """What was asked for and what is buffered never exceed the room."""
        if hasattr(self, "state"):
            assert 0 <= self.state.pending <= self.state.plan.capacity
            assert self.state.buffered_messages == len(self.buffer)
            assert self.state.buffered_bytes == sum(self.buffer)

    @invariant()
    def credit_is_what_the_server_owes(self) -> None:
        """As long as nothing was lost, credit is exactly what waiting pulls and the wire may still bring."""
        if not hasattr(self, "state") or self.server.forgot or not self.connected:
            return
        owed_messages = sum(waiting.messages for waiting in self.server.waiting.values())
        owed_bytes = sum(waiting.bytes for waiting in self.server.waiting.values())
        for item in self.server.wire:
            if isinstance(item, int):
                owed_messages, owed_bytes = owed_messages + 1, owed_bytes + item
            elif not item[1].is_heartbeat:
                refused = item[1].pending_messages is None
                assert item[0] in self.state._open
                pull = self.state._open[item[0]].pull
                owed_messages += pull.batch if refused else item[1].pending_messages or 0
                owed_bytes += pull.max_bytes if refused else item[1].pending_bytes or 0
        if self.by_bytes:
            assert self.state.credit_bytes == owed_bytes
        else:
            assert self.state.credit_messages == owed_messages

    def teardown(self) -> None:
        """Consuming is never stuck: whatever happened, new messages arrive once server and program are well."""
        if not hasattr(self, "state"):
            return
        if not self.connected:
            self.reconnect()
        self.server.refusing = None
        self.server.stored.extend([LARGEST] * 30)
        on_the_wire = sum(isinstance(item, int) for item in self.server.wire)
        target, deadline = self.state.received_total + on_the_wire + len(self.server.stored), self.now + 60
        while self.server.stored:
            assert self.now < deadline, "stuck"
            self._pump()
            while self.server.stored and self.server.waiting:
                self.server.serve(min(self.server.waiting), self.now)
            self._receive_all()
            while self.buffer:
                self.state.handed_over(self.buffer.popleft())
            self._pump()
            if not self.server.waiting:
                self.now += self.state.next_look(self.now) or 0.001
            self.server.pass_time(self.now)
            self._receive_all()
            self.state.tick(self.now)
        assert self.state.received_total == target


Consuming.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


TestConsuming = Consuming.TestCase
