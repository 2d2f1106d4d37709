"""Ordered delivery over a consumer that loses messages and dies: random histories against the stream itself."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from consumers.client.delivery import Metadata
from consumers.client.ordered_state import OrderedState, Start, Verdict, start_fields


class Incarnation:
    """A consumer of the server: counts what it sends, from where it was told to start."""

    def __init__(self, name: str, stream: list[int], start: Start) -> None:
        self.name = name
        self.left = [seq for seq in stream if start.after is None or seq > start.after]
        self.sent = 0

    def send(self) -> Metadata | None:
        """The next message, if there is one."""
        if not self.left:
            return None
        self.sent += 1
        return Metadata("S", self.name, 1, self.left.pop(0), self.sent, 0, len(self.left))


class Reader:
    """A reader with one consumer of the server after the other."""

    def __init__(self, stream: list[int]) -> None:
        self.stream = stream
        self.state = OrderedState()
        self.taken: list[int] = []
        self.last: Metadata | None = None
        self.server = self.old = self.renew()

    def renew(self) -> Incarnation:
        """A new consumer, from where the state says."""
        server = Incarnation(f"c_{self.state.serial + 1}", self.stream, self.state.start)
        self.state.started(server.name)
        return server

    def offer(self, metadata: Metadata | None) -> Verdict | None:
        """A message arrives."""
        verdict = self.state.take(metadata) if metadata else None
        if metadata and verdict is Verdict.TAKE:
            self.taken.append(metadata.stream_seq)
        return verdict

    def send(self) -> bool:
        """The consumer's next message arrives."""
        message = self.server.send()
        self.last = message or self.last
        return self.offer(message) is Verdict.GAP

    def drop(self) -> bool:
        """The next message is lost on its way."""
        self.server.send()
        return False

    def repeat(self) -> bool:
        """The last message arrives once more."""
        return self.offer(self.last) is Verdict.GAP

    def beat(self) -> bool:
        """A heartbeat arrives."""
        return self.state.heartbeat(self.server.sent)

    def late(self) -> bool:
        """Something of a consumer that was given up arrives."""
        assert self.old is self.server or self.offer(self.old.send()) in {None, Verdict.STALE}
        return False

    def die(self) -> bool:
        """The consumer is gone; what it had sent is still on its way."""
        self.state.abandoned()
        assert self.offer(self.server.send()) in {None, Verdict.STALE}
        return True


STEPS = {"send": Reader.send, "drop": Reader.drop, "repeat": Reader.repeat, "beat": Reader.beat, "late": Reader.late,
         "die": Reader.die}  # fmt: skip
NAMES = ["send", "send", *STEPS]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=25), st.lists(st.sampled_from(NAMES), max_size=60))
def test_every_message_is_taken_once_and_in_order(distances: list[int], steps: list[str]) -> None:
    """Whatever is dropped, repeated, late or gone, what is taken is the stream, without a hole."""
    stream = [sum(distances[: end + 1]) for end in range(len(distances))]
    reader = Reader(stream)
    for step in [*steps, *["send", "beat"] * (2 * len(stream))]:
        if STEPS[step](reader):
            reader.old, reader.server = reader.server, reader.renew()
        assert reader.taken == stream[: len(reader.taken)]
    assert reader.taken == stream
    assert reader.state.taken_seq == stream[-1]


def test_a_gap_says_what_is_missing() -> None:
    """The hole is told, and whatever else the consumer sends is stale."""
    state = OrderedState()
    state.started("c_1")
    assert state.take(Metadata("S", "c_1", 1, 10, 1, 0, 5)) is Verdict.TAKE
    assert not state.heartbeat(1)
    assert not state.heartbeat(None)
    assert state.heartbeat(3)
    assert state.gap is not None
    assert (state.gap.expected, state.gap.received) == (2, 3)
    assert state.take(Metadata("S", "c_1", 1, 11, 2, 0, 4)) is Verdict.STALE
    assert not state.heartbeat(4), "once is enough"


def test_a_new_reader_starts_behind_what_was_handed_over() -> None:
    """What was taken and never handed over is taken again; the user's start holds until the first message."""
    state, moment = OrderedState(), datetime(2026, 1, 1, tzinfo=UTC)
    assert start_fields(state.start, "by_start_time", None, moment)["opt_start_time"] == moment
    state.started("c_1")
    first = Metadata("S", "c_1", 1, 10, 1, 0, 5)
    state.take(first)
    state.take(Metadata("S", "c_1", 1, 12, 2, 0, 4))
    state.handed(first)
    assert state.start.after == 12
    state.rewind()
    assert start_fields(state.start, "by_start_time", None, moment) == {
        "deliver_policy": "by_start_sequence", "opt_start_seq": 11, "opt_start_time": None,
    }  # fmt: skip
