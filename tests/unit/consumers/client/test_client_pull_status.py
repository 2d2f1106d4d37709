"""Statuses of pulls: what they say, and in which of ADR-37's three classes they are."""

import pytest

from consumers.client.errors import ErrorKind
from consumers.client.pull_status import PullStatus, read_status

TERMINAL = {
    (400, "Bad Request - heartbeat value too large"): ErrorKind.BAD_PULL,
    (409, "Consumer Deleted"): ErrorKind.CONSUMER_DELETED,
    (409, "Consumer is push based"): ErrorKind.CONSUMER_IS_PUSH,
}
WARNINGS = {
    (409, "Exceeded MaxRequestBatch of 10"): ErrorKind.PULL_LIMIT_EXCEEDED,
    (409, "Exceeded MaxRequestExpires of 1s"): ErrorKind.PULL_LIMIT_EXCEEDED,
    (409, "Exceeded MaxRequestMaxBytes of 10"): ErrorKind.PULL_LIMIT_EXCEEDED,
    (409, "Exceeded MaxWaiting"): ErrorKind.PULL_LIMIT_EXCEEDED,
    (409, "Leadership Change"): ErrorKind.LEADERSHIP_CHANGED,
    (503, ""): ErrorKind.NO_RESPONDERS,
    (423, "Nats-Wrong-Pin-Id"): ErrorKind.UNKNOWN_PULL_STATUS,
    (409, "Something New"): ErrorKind.UNKNOWN_PULL_STATUS,
    (0, "no status"): ErrorKind.UNKNOWN_PULL_STATUS,
}
SILENT = [
    (404, "No Messages"),
    (408, "Request Timeout"),
    (408, "Interest Expired"),
    (409, "Message Size Exceeds MaxBytes"),
    (409, "Batch Completed"),
    (409, "Batch-Completed"),
    (100, "Idle Heartbeat"),
]


@pytest.mark.parametrize(("code", "description"), TERMINAL)
def test_errors_end_consuming(code: int, description: str) -> None:
    """The first class is told and ends consuming."""
    problem = PullStatus(code, description).problem
    assert problem is not None
    assert problem.terminal
    assert problem.kind == TERMINAL[code, description]


@pytest.mark.parametrize(("code", "description"), WARNINGS)
def test_warnings_are_told_and_end_nothing(code: int, description: str) -> None:
    """The second class, and whatever is not known, is told while consuming goes on."""
    problem = PullStatus(code, description).problem
    assert problem is not None
    assert not problem.terminal
    assert problem.kind == WARNINGS[code, description]


@pytest.mark.parametrize(("code", "description"), SILENT)
def test_the_third_class_is_silent(code: int, description: str) -> None:
    """The usual ends of a pull are nobody's business."""
    assert PullStatus(code, description).problem is None


def test_figures_are_read_from_headers() -> None:
    """What the pull still had is read from the status, and nothing is made of figures that are none."""
    headers = {"Status": "408", "Description": "Request Timeout", "Nats-Pending-Messages": "7"}
    assert read_status(headers) == PullStatus(408, "Request Timeout", 7, None)
    assert read_status(headers | {"Nats-Pending-Bytes": "0"}).pending_bytes == 0
    assert read_status(headers | {"Nats-Pending-Bytes": "-3"}).pending_bytes is None
    assert read_status({"Status": "100", "Nats-Last-Consumer": "12"}).last_consumer == 12
    assert read_status({"Status": "two"}).code == 0
    assert read_status(None).code == 0
