"""Pull accounting by example: thresholds, statuses, heartbeats, lost connections, the end."""

import pytest

from consumers.client.errors import ErrorKind
from consumers.client.pull import ConsumeOptions, Pull
from consumers.client.pull_state import PAUSE_MAX, Event, Phase, PullState
from consumers.client.pull_status import PullStatus

TIMEOUT = "Request Timeout"


def _state(**options: int) -> PullState:
    return PullState(ConsumeOptions(expires=10, idle_heartbeat=2, **options).plan())


def _pulled(state: PullState, now: float) -> Pull:
    pull = state.pull(now)
    assert pull is not None
    assert state.pull(now) is None, "one pull fills the buffer"
    return pull


def _take(state: PullState, count: int, now: float, size: int = 10) -> None:
    for _ in range(count):
        state.received(size, now)
        state.handed_over(size)


def test_the_next_pull_goes_out_at_the_threshold_and_fills_the_buffer() -> None:
    """Nothing is asked for above the threshold, and exactly the room that is left at it."""
    state = _state(max_messages=10, threshold_messages=4)
    assert _pulled(state, 0) == Pull(1, 10, 0, 10, 2)
    _take(state, 5, 0)
    assert state.pull(0) is None
    _take(state, 1, 0)
    assert _pulled(state, 0).batch == 6
    assert state.pending == 10


def test_a_message_in_the_buffer_is_pending_until_it_is_handed_over() -> None:
    """A program that does not take its messages is not sent more."""
    state = _state(max_messages=4)
    _pulled(state, 0)
    for _ in range(4):
        state.received(10, 0)
    assert (state.pending, state.credit_messages, state.pull(0)) == (4, 0, None)
    state.handed_over(10)
    state.handed_over(10)
    assert _pulled(state, 0).batch == 2


def test_a_buffer_of_one_does_not_get_stuck() -> None:
    """With room for one message each is asked for by itself."""
    state = _state(max_messages=1)
    for number in range(1, 5):
        assert _pulled(state, 0).number == number
        _take(state, 1, 0)


def test_bytes_are_counted_when_bytes_limit() -> None:
    """The room in bytes is asked for with a batch that does not matter."""
    state = _state(max_bytes=1000)
    assert _pulled(state, 0) == Pull(1, 1_000_000, 1000, 10, 2)
    _take(state, 4, 0, size=120)
    assert state.pull(0) is None
    _take(state, 1, 0, size=120)
    assert _pulled(state, 0).max_bytes == 600


def test_an_ended_pull_gives_back_what_it_still_had() -> None:
    """The status's figures leave the credit, and no more than that."""
    state = _state(max_messages=10, threshold_messages=6)
    _pulled(state, 0)
    _take(state, 4, 0)
    assert _pulled(state, 0).number == 2
    assert state.status(1, PullStatus(408, TIMEOUT, 6, 0), 9) is None
    assert state.credit_messages == 4
    assert state.status(1, PullStatus(408, TIMEOUT, 4, 0), 9) is None, "a pull ends once"
    assert state.credit_messages == 4


def test_a_refused_pull_gives_back_itself() -> None:
    """A refusal without figures takes back its own pull; the next waits, each time longer."""
    state = _state(max_messages=10)
    now, pauses = 0.0, []
    for _ in range(9):
        number = _pulled(state, now).number
        problem = state.status(number, PullStatus(409, "Exceeded MaxRequestBatch of 5"), now)
        assert problem is not None
        assert problem.kind == ErrorKind.PULL_LIMIT_EXCEEDED
        assert state.pending == 0
        assert state.pull(now) is None
        wait = state.next_look(now)
        assert wait is not None
        pauses.append(wait)
        now += wait
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(PAUSE_MAX)
    _pulled(state, now)
    _take(state, 10, now)
    state.pull(now)
    state.status(11, PullStatus(503), now)
    assert state.next_look(now) == pytest.approx(pauses[0]), "a message ends the series"


def test_a_pull_that_expired_is_followed_at_once() -> None:
    """The usual end of a quiet pull costs no pause."""
    state = _state(max_messages=10)
    _pulled(state, 0)
    state.status(1, PullStatus(100), 2)
    assert state.status(1, PullStatus(408, TIMEOUT, 10, 0), 10) is None
    _pulled(state, 10)


def test_silence_is_told_and_followed_by_a_new_pull() -> None:
    """Twice the heartbeat without a sign of an open pull is a warning, and a new pull with all the room."""
    state = _state(max_messages=10)
    _pulled(state, 0)
    state.status(1, PullStatus(100), 3)
    assert state.tick(6.9) is None
    late = state.tick(7)
    assert late is not None
    assert late.kind == ErrorKind.HEARTBEAT_MISSED
    assert not late.terminal
    assert _pulled(state, 7).batch == 10


def test_without_an_open_pull_silence_means_nothing() -> None:
    """A full buffer and a slow program are no reason to miss heartbeats."""
    state = _state(max_messages=3)
    _pulled(state, 0)
    for _ in range(3):
        state.received(10, 0)
    assert state.tick(1000) is None
    assert state.next_look(1000) is None


def test_a_lost_connection_stops_pulls_and_timer_until_it_is_back() -> None:
    """Offline nothing is sent or missed; back, one pull goes out for what is not in the buffer."""
    state = _state(max_messages=10)
    _pulled(state, 0)
    state.received(10, 0)
    state.on(Event.DISCONNECTED)
    assert (state.phase, state.pull(1), state.tick(1000), state.next_look(1000)) == (Phase.OFFLINE, None, None, None)
    state.on(Event.RECONNECTED)
    assert _pulled(state, 1000).batch == 9
    assert state.tick(1003.9) is None
    assert state.status(1, PullStatus(408, TIMEOUT, 9, 0), 1001) is None
    assert state.credit_messages == 9, "the status of a lost pull is nobody's"


def test_a_refused_pull_leaves_others_their_credit() -> None:
    """Of two open pulls, the refusal of one takes back that one alone."""
    state = _state(max_messages=10, threshold_messages=6)
    _pulled(state, 0)
    _take(state, 4, 0)
    assert _pulled(state, 0).batch == 4
    state.status(2, PullStatus(409, "Exceeded MaxWaiting"), 0)
    assert (state.credit_messages, state.open_pulls) == (6, 1)


def test_a_message_too_large_for_the_room_waits_for_an_empty_buffer() -> None:
    """What may fit into the whole buffer is asked for when it is empty, and not again and again before."""
    state = _state(max_bytes=1000)
    _pulled(state, 0)
    for _ in range(6):
        state.received(100, 0)
    too_large = PullStatus(409, "Message Size Exceeds MaxBytes", 999_994, 400)
    assert state.status(1, too_large, 0) is None
    state.handed_over(100)
    assert _pulled(state, 0).max_bytes == 500
    assert state.status(2, PullStatus(409, "Message Size Exceeds MaxBytes", 1_000_000, 500), 0) is None
    for _ in range(4):
        state.handed_over(100)
        assert state.pull(0) is None
    state.handed_over(100)
    assert _pulled(state, 0).max_bytes == 1000
    _take(state, 1, 0, size=900)
    assert _pulled(state, 0).max_bytes == 900, "from then on as always"


def test_a_message_that_never_fits_is_told() -> None:
    """A message larger than the buffer is a warning, at the pace of refusals."""
    state = _state(max_bytes=1000)
    _pulled(state, 0)
    problem = state.status(1, PullStatus(409, "Message Size Exceeds MaxBytes", 1_000_000, 1000), 0)
    assert problem is not None
    assert problem.kind == ErrorKind.MESSAGE_TOO_LARGE
    assert state.pull(0) is None


def test_an_end_asks_for_nothing_more() -> None:
    """Draining and stopped, no pull is due, whatever happens; only a stop follows a drain."""
    state = _state(max_messages=10)
    _pulled(state, 0)
    state.on(Event.DRAIN)
    state.received(10, 0)
    for event in (Event.RECONNECTED, Event.BROKEN, Event.RECOVERED, Event.DISCONNECTED):
        state.on(event)
        assert (state.phase, state.pull(0)) == (Phase.DRAINING, None)
    state.on(Event.STOP)
    state.on(Event.RECONNECTED)
    assert (state.phase, state.pull(0)) == (Phase.ENDED, None)


def test_a_limited_consumption_asks_for_no_more_than_its_total() -> None:
    """With a total the last pull is as small as what is missing."""
    state = PullState(ConsumeOptions(max_messages=4, expires=10).plan(total=6))
    assert _pulled(state, 0).batch == 4
    _take(state, 4, 0)
    assert _pulled(state, 0).batch == 2
    _take(state, 2, 0)
    assert state.pull(0) is None


def test_a_pull_without_end_is_given_up_in_time() -> None:
    """A pull that never ends, while others keep the heartbeat alive, does not hold its credit for good."""
    state = _state(max_messages=10, threshold_messages=10)
    _pulled(state, 0)
    for now in range(1, 11):
        assert state.tick(now) is None
        state.status(1, PullStatus(100), now)
    late = state.tick(11)
    assert late is not None
    assert late.kind == ErrorKind.PULL_UNANSWERED
    assert _pulled(state, 11).batch == 10
