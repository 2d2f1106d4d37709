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


STEPS = st.lists(
    st.sampled_from(["send", "send", "send", "drop", "repeat", "beat", "die", "old", "restart"]), max_size=60
)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=25), STEPS)
def test_every_message_is_taken_once_and_in_order(steps_between: list[int], steps: list[str]) -> None:
    """Whatever is dropped, repeated, late or gone, what is taken is the stream, without a hole."""
    stream = [sum(steps_between[: end + 1]) for end in range(len(steps_between))]
    state, made, taken = OrderedState(), 0, []

    def renew() -> Incarnation:
        nonlocal made
        made += 1
        server = Incarnation(f"c_{made}", stream, state.start)
        state.started(server.name)
        return server

    def offer(metadata: Metadata | None) -> Verdict | None:
        verdict = state.take(metadata) if metadata else None
        if metadata and verdict is Verdict.TAKE:
            taken.append(metadata.stream_seq)
        return verdict

    server = renew()
    old, last = server, None
    for step in [*steps, *["send", "beat"] * len(stream)]:
        broken = False
        if step == "send":
            last = server.send() or last
            broken = offer(last if last and last.consumer == server.name else None) is Verdict.GAP
        elif step == "drop":
            server.send()
        elif step == "repeat":
            broken = offer(last) is Verdict.GAP
        elif step == "beat":
            broken = state.heartbeat(server.sent)
        elif step == "old":
            assert old is server or offer(old.send()) in {None, Verdict.STALE}
        else:
            state.abandoned()
            assert offer(server.send()) in {None, Verdict.STALE}
            broken = True
        assert taken == stream[: len(taken)]
        if broken:
            old, server = server, renew()
    while taken != stream:
        if offer(server.send()) in {Verdict.GAP, None}:
            server = renew()
    assert state.taken_seq == stream[-1]


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
