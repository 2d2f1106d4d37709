"""Options of consuming and fetching: ADR-37's defaults, bounds and exclusions."""

import json

import pytest

from consumers.client.errors import UsageError
from consumers.client.pull import UNCOUNTED, ConsumeOptions, Pull, PullPlan, fetch_pull


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        (ConsumeOptions(), PullPlan(500, 0, 30, 15, 250)),
        (ConsumeOptions(max_messages=1), PullPlan(1, 0, 30, 15, 0)),
        (ConsumeOptions(max_messages=7, threshold_messages=7), PullPlan(7, 0, 30, 15, 7)),
        (ConsumeOptions(max_bytes=1000), PullPlan(UNCOUNTED, 1000, 30, 15, 500)),
        (ConsumeOptions(max_bytes=1000, threshold_bytes=10), PullPlan(UNCOUNTED, 1000, 30, 15, 10)),
        (ConsumeOptions(expires=1), PullPlan(500, 0, 1, 0.5, 250)),
        (ConsumeOptions(expires=100), PullPlan(500, 0, 100, 30, 250)),
        (ConsumeOptions(expires=4, idle_heartbeat=1), PullPlan(500, 0, 4, 1, 250)),
    ],
)
def test_what_is_left_open_is_decided(options: ConsumeOptions, plan: PullPlan) -> None:
    """Buffer of 500 messages, threshold half of it, expiry 30 s, heartbeat half of that up to 30 s."""
    assert options.plan() == plan


@pytest.mark.parametrize(
    "options",
    [
        ConsumeOptions(max_messages=1, max_bytes=1),
        ConsumeOptions(max_messages=0),
        ConsumeOptions(max_bytes=0),
        ConsumeOptions(max_messages=5, threshold_messages=6),
        ConsumeOptions(max_bytes=5, threshold_bytes=6),
        ConsumeOptions(max_messages=5, threshold_bytes=5),
        ConsumeOptions(max_bytes=5, threshold_messages=5),
        ConsumeOptions(threshold_messages=-1),
        ConsumeOptions(expires=0.9),
        ConsumeOptions(idle_heartbeat=0.4),
        ConsumeOptions(expires=100, idle_heartbeat=31),
        ConsumeOptions(expires=2, idle_heartbeat=1.5),
    ],
)
def test_contradictions_are_refused(options: ConsumeOptions) -> None:
    """What ADR-37 excludes is an error before anything is sent."""
    with pytest.raises(UsageError):
        options.plan()


def test_a_fetch_has_heartbeats_only_when_it_is_long() -> None:
    """Above 30 s heartbeats are on by default; bytes alone ask for a large batch."""
    assert fetch_pull(10) == Pull(1, 10, 0, 30, 0)
    assert fetch_pull(10, expires=31).idle_heartbeat == 15.5
    assert fetch_pull(10, expires=100).idle_heartbeat == 30
    assert fetch_pull(10, expires=2, idle_heartbeat=0.5).idle_heartbeat == 0.5
    assert fetch_pull(None, max_bytes=9) == Pull(1, UNCOUNTED, 9, 30, 0)
    assert fetch_pull(10, no_wait=True) == Pull(1, 10, no_wait=True)


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        (None, {}),
        (0, {}),
        (1, {"max_bytes": 0}),
        (1, {"expires": 0}),
        (1, {"expires": 1, "idle_heartbeat": 0.6}),
        (1, {"no_wait": True, "idle_heartbeat": 1}),
    ],
)
def test_fetches_that_cannot_be_are_refused(messages: int | None, options: dict[str, float]) -> None:
    """A fetch without a limit, without time, or with heartbeats that have none is an error."""
    with pytest.raises(UsageError):
        fetch_pull(messages, **options)  # type: ignore[arg-type]


def test_a_pull_on_the_wire_has_nanoseconds_and_no_empty_fields() -> None:
    """The request names what it limits, and nothing else."""
    assert json.loads(Pull(1, 5, 0, 2.5, 0).body) == {"batch": 5, "expires": 2_500_000_000}
    assert json.loads(Pull(1, 5, no_wait=True).body) == {"batch": 5, "no_wait": True}
    assert json.loads(Pull(1, 5, 9, 2, 0.5).body) == {
        "batch": 5, "max_bytes": 9, "expires": 2_000_000_000, "idle_heartbeat": 500_000_000,
    }  # fmt: skip
