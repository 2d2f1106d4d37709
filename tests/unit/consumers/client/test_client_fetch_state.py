"""A fetch's end: for each way a pull can end, the reason or the error, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.client.errors import ErrorKind
from consumers.client.fetch_state import FetchEnd, FetchState
from consumers.client.pull import Pull
from consumers.client.pull_status import PullStatus

WAITING = Pull(1, 3, 0, 10, 2)
NO_WAIT = Pull(1, 3, no_wait=True)


@pytest.mark.parametrize(
    ("pull", "status", "end"),
    [
        (WAITING, PullStatus(408, "Request Timeout", 3, 0), FetchEnd.EXPIRED),
        (WAITING, PullStatus(409, "Batch Completed", 1, 0), FetchEnd.BYTES),
        (WAITING, PullStatus(409, "Message Size Exceeds MaxBytes", 3, 5), FetchEnd.TOO_LARGE),
        (NO_WAIT, PullStatus(404, "No Messages"), FetchEnd.NO_MESSAGES),
        (NO_WAIT, PullStatus(408, "Requests Pending"), FetchEnd.NO_MESSAGES),
    ],
)
def test_the_usual_ends_are_no_errors(pull: Pull, status: PullStatus, end: FetchEnd) -> None:
    """Expired, used up and empty end a fetch silently."""
    state = FetchState(pull, 0)
    state.status(PullStatus(100), 0)
    assert state.end is None
    state.status(status, 0)
    assert state.end is end
    assert state.error is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (PullStatus(409, "Consumer Deleted"), ErrorKind.CONSUMER_DELETED),
        (PullStatus(409, "Consumer is push based"), ErrorKind.CONSUMER_IS_PUSH),
        (PullStatus(400, "Bad Request"), ErrorKind.BAD_PULL),
        (PullStatus(409, "Exceeded MaxRequestBatch of 1"), ErrorKind.PULL_LIMIT_EXCEEDED),
        (PullStatus(409, "Exceeded MaxWaiting"), ErrorKind.PULL_LIMIT_EXCEEDED),
        (PullStatus(503), ErrorKind.NO_RESPONDERS),
    ],
)
def test_refusals_and_deletion_are_errors(status: PullStatus, kind: ErrorKind) -> None:
    """What the program should know ends a fetch with an error."""
    state = FetchState(WAITING, 0)
    state.status(status, 0)
    assert state.end is FetchEnd.FAILED
    assert state.error is not None
    assert state.error.kind == kind


def test_silence_and_lateness_are_errors() -> None:
    """A missed heartbeat ends a fetch; without heartbeats its expiry and a second do."""
    state = FetchState(WAITING, 0)
    state.received(3)
    state.tick(6.9)
    assert state.end is None
    assert state.next_look(6.9) == pytest.approx(0.1)
    state.tick(7)
    assert state.error is not None
    assert state.error.kind == ErrorKind.HEARTBEAT_MISSED
    quiet = FetchState(Pull(1, 3, 0, 10), 0)
    quiet.tick(10.9)
    assert quiet.end is None
    quiet.tick(11)
    assert quiet.error is not None
    assert quiet.error.kind == ErrorKind.PULL_UNANSWERED


@given(st.lists(st.sampled_from(["message", "beat", "timeout", "deleted", "tick"]), max_size=12))
def test_a_fetch_ends_once_and_for_one_reason(events: list[str]) -> None:
    """The first end stands; all messages asked for is one, and then nothing is an error."""
    state, ended = FetchState(WAITING, 0), None
    for step, event in enumerate(events):
        now = step * 3.0
        if event == "message":
            state.received(now)
        elif event == "tick":
            state.tick(now)
        else:
            code = {"beat": 100, "timeout": 408, "deleted": 409}[event]
            state.status(PullStatus(code, "Consumer Deleted" if code == 409 else ""), now)
        if ended is None:
            ended = state.end
            assert (state.end is FetchEnd.SERVED) == (state.received_total == 3 and ended is not None)
        assert state.end == ended
        assert (state.error is not None) == (ended is FetchEnd.FAILED)
