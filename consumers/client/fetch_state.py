"""The end of a fetch: when it is over, and why. Pure.

A fetch ends with its pull: served, no messages, expired, or bytes used up. Any other end is an error, raised after the
messages that arrived. The client's own timeout is later than the pull's expiry.
"""

from enum import StrEnum

from consumers.client.errors import HeartbeatMissed, JetStreamError, PullUnanswered
from consumers.client.pull import GRACE, Pull
from consumers.client.pull_status import PullStatus


class FetchEnd(StrEnum):
    """The reason why a fetch is over."""

    SERVED = "served"
    """As many messages as requested have arrived."""
    NO_MESSAGES = "no messages"
    """There were no more at the time (``no_wait``)."""
    EXPIRED = "expired"
    """``expires`` has passed."""
    BYTES = "bytes"
    """``max_bytes`` is used up."""
    TOO_LARGE = "too large"
    """The next message does not fit into what is left of ``max_bytes``."""
    FAILED = "failed"


class FetchState:
    """The state of one pull, from sending to its end. Times are seconds of a monotonic clock."""

    def __init__(self, pull: Pull, now: float) -> None:
        self.pull = pull
        self.received_total = 0
        self.end: FetchEnd | None = None
        self.error: JetStreamError | None = None
        self._deadline = now + pull.expires + GRACE
        self._heartbeat_due = 0.0
        self._heard(now)

    def received(self, now: float) -> None:
        """Count a message."""
        self._heard(now)
        self.received_total += 1
        if self.received_total >= self.pull.batch:
            self._finish(FetchEnd.SERVED)

    def status(self, status: PullStatus, now: float) -> None:
        """Apply a status: a heartbeat, or the end."""
        self._heard(now)
        if status.is_heartbeat:
            return
        problem = status.problem
        if problem is not None:
            self.fail(problem)
        elif status.is_too_large:
            self._finish(FetchEnd.TOO_LARGE)
        elif status.code == 409:
            self._finish(FetchEnd.BYTES)
        else:
            self._finish(FetchEnd.NO_MESSAGES if self.pull.no_wait or status.code == 404 else FetchEnd.EXPIRED)

    def tick(self, now: float) -> None:
        """Fail if the heartbeat or the deadline has passed."""
        if self.pull.idle_heartbeat and now >= self._heartbeat_due:
            self.fail(HeartbeatMissed(0, f"nothing heard for twice {self.pull.idle_heartbeat:g} s"))
        elif now >= self._deadline:
            self.fail(PullUnanswered(0, f"no end of a pull that expires after {self.pull.expires:g} s"))

    def fail(self, error: JetStreamError) -> None:
        """End with an error, unless the fetch has ended."""
        if self.end is None:
            self.error = error
            self._finish(FetchEnd.FAILED)

    def next_look(self, now: float) -> float:
        """Return the seconds until :meth:`tick` may have something to do."""
        due = min(self._deadline, self._heartbeat_due) if self.pull.idle_heartbeat else self._deadline
        return max(0.0, due - now)

    def _heard(self, now: float) -> None:
        self._heartbeat_due = now + 2 * self.pull.idle_heartbeat

    def _finish(self, end: FetchEnd) -> None:
        if self.end is None:
            self.end = end
