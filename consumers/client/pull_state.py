"""The accounting of consuming: when to pull, and the effect of statuses, silence and lost connections. Pure.

Theory of operation. Credit is what was requested of the server and has not arrived; the buffer is what has arrived and
was not handed over. Their sum is ADR-37's pending. Whenever pending is at or below the threshold, a pull for the rest
of the capacity goes out, so pending never exceeds the capacity.

Credit falls with each message and, at the end of a pull, by the rest that its status reports. Each pull has a number
on the inbox, so a status without a rest (a refusal) takes back exactly its own pull, and one of a forgotten pull takes
back nothing. While no pull is open, credit is zero: so a miscount (headers counted otherwise than by the server,
messages dropped on the way) ends there and can't stop consuming for good.

The heartbeat's deadline holds while a pull is open. When it passes, all pulls count as lost and a new one goes out,
likewise after a reconnect. A pull that ends at once without a message is followed by a pause that doubles, so no
refusal causes a storm of requests.

    phase       event          next
    OPEN        disconnected   OFFLINE       pulls are lost, the heartbeat's timer stands still
    OFFLINE     reconnected    OPEN          a pull goes out at once
    OPEN        broken         RECOVERING    (ordered) the consumer is gone or has lost a message
    RECOVERING  recovered      OPEN
    any         drain          DRAINING      no more pulls, the buffer is handed over
    any         stop           ENDED
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from consumers.client.errors import HeartbeatMissed, MessageTooLarge, PullError, PullUnanswered
from consumers.client.pull import GRACE, Pull, PullPlan
from consumers.client.pull_status import PullStatus

PAUSE_MIN, PAUSE_MAX = 0.1, 5.0
AT_ONCE = 0.5
"""Seconds: a pull that ends sooner without a message counts as refused, whatever its status."""


class Phase(Enum):
    """The phases of consuming."""

    OPEN = auto()
    OFFLINE = auto()
    RECOVERING = auto()
    DRAINING = auto()
    ENDED = auto()


class Event(Enum):
    """The events that change the phase."""

    DISCONNECTED = auto()
    RECONNECTED = auto()
    BROKEN = auto()
    RECOVERED = auto()
    DRAIN = auto()
    STOP = auto()


_NEXT: dict[tuple[Phase, Event], Phase] = {
    (Phase.OPEN, Event.DISCONNECTED): Phase.OFFLINE,
    (Phase.OPEN, Event.RECONNECTED): Phase.OPEN,
    (Phase.OFFLINE, Event.RECONNECTED): Phase.OPEN,
    (Phase.OPEN, Event.BROKEN): Phase.RECOVERING,
    (Phase.OFFLINE, Event.BROKEN): Phase.RECOVERING,
    (Phase.RECOVERING, Event.RECOVERED): Phase.OPEN,
    **{(phase, Event.DRAIN): Phase.DRAINING for phase in (Phase.OPEN, Phase.OFFLINE, Phase.RECOVERING)},
    **{(phase, Event.STOP): Phase.ENDED for phase in Phase},
}


@dataclass(slots=True)
class _Open:
    """A pull that the server may still serve."""

    pull: Pull
    opened: float
    deadline: float
    received_before: int


class PullState:
    """The accounting of one consumption. Times are seconds of a monotonic clock."""

    def __init__(self, plan: PullPlan) -> None:
        self.plan = plan
        self.phase = Phase.OPEN
        self.credit_messages = 0
        self.credit_bytes = 0
        self.buffered_messages = 0
        self.buffered_bytes = 0
        self.received_total = 0
        self._open: dict[int, _Open] = {}
        self._numbers = 0
        self._heartbeat_due = 0.0
        self._resume_at = 0.0
        self._pause = PAUSE_MIN
        self._until_empty = False

    @property
    def pending(self) -> int:
        """Credit and buffer together, in messages; in bytes if ``max_bytes`` limits."""
        if self.plan.max_bytes:
            return self.credit_bytes + self.buffered_bytes
        return self.credit_messages + self.buffered_messages

    @property
    def open_pulls(self) -> int:
        """Number of pulls not known to have ended."""
        return len(self._open)

    @property
    def is_pull_due(self) -> bool:
        """Whether to send a pull, apart from a pause."""
        if self.phase is not Phase.OPEN or (self._until_empty and self.pending > 0):
            return False
        return self.pending <= self.plan.threshold and self.pending < self.plan.capacity and self._wanted() > 0

    def pull(self, now: float) -> Pull | None:
        """Return the pull to send now, if any; it counts as sent."""
        if not self.is_pull_due or now < self._resume_at:
            return None
        plan, room = self.plan, self.plan.capacity - self.pending
        batch = min(plan.max_messages if plan.max_bytes else room, self._wanted())
        self._numbers += 1
        pull = Pull(self._numbers, batch, room if plan.max_bytes else 0, plan.expires, plan.idle_heartbeat)
        self._open[pull.number] = _Open(pull, now, now + plan.expires + GRACE, self.received_total)
        self.credit_messages += batch
        self.credit_bytes += pull.max_bytes
        self._until_empty = False
        self._heard(now)
        return pull

    def _wanted(self) -> int:
        total = self.plan.total
        return total - self.received_total - self.credit_messages if total else self.plan.max_messages

    def received(self, size: int, now: float) -> None:
        """Count a message of ``size`` bytes into the buffer."""
        self._heard(now)
        self.received_total += 1
        self.buffered_messages += 1
        self.buffered_bytes += size
        self.credit_messages = max(0, self.credit_messages - 1)
        self.credit_bytes = max(0, self.credit_bytes - size)
        self._pause, self._resume_at = PAUSE_MIN, 0.0
        if self.credit_messages == 0:
            self._open.clear()
            self.credit_bytes = 0

    def handed_over(self, size: int) -> None:
        """Count a message of ``size`` bytes out of the buffer."""
        self.buffered_messages -= 1
        self.buffered_bytes -= size
        assert self.buffered_messages >= 0
        assert self.buffered_bytes >= 0

    def status(self, number: int, status: PullStatus, now: float) -> PullError | None:
        """Apply a status of the pull ``number``; return the error to report, which may be terminal."""
        opened = self._open.get(number)
        if opened is None:
            return None
        self._heard(now)
        if status.is_heartbeat:
            return None
        del self._open[number]
        pull = opened.pull
        left_messages = pull.batch if status.pending_messages is None else status.pending_messages
        left_bytes = pull.max_bytes if status.pending_bytes is None else status.pending_bytes
        self.credit_messages = max(0, self.credit_messages - left_messages)
        self.credit_bytes = max(0, self.credit_bytes - left_bytes)
        if not self._open:
            self._no_credit()
        fruitless = opened.received_before == self.received_total
        problem = status.problem
        if fruitless and status.is_too_large:
            problem = self._too_large(pull, status, now)
        elif fruitless and now - opened.opened < AT_ONCE:
            self.pause(now)
        return problem

    def _too_large(self, pull: Pull, status: PullStatus, now: float) -> PullError | None:
        """Handle a message that did not fit: wait for an empty buffer, or report that it never will."""
        if pull.max_bytes < self.plan.max_bytes:
            self._until_empty = True
            return None
        self.pause(now)
        return MessageTooLarge(status.code, f"{status.description}: the next message alone exceeds max_bytes")

    def tick(self, now: float) -> PullError | None:
        """Give up pulls whose heartbeat or deadline has passed; return the warning to report."""
        if self.phase is not Phase.OPEN or not self._open:
            return None
        if now >= self._heartbeat_due:
            silence = now - self._heartbeat_due + 2 * self.plan.idle_heartbeat
            self._lose_pulls()
            return HeartbeatMissed(0, f"nothing heard for {silence:.1f} s")
        overdue = [number for number, opened in self._open.items() if now >= opened.deadline]
        for number in overdue:
            del self._open[number]
        if overdue and not self._open and self.credit_messages:
            self._no_credit()
            return PullUnanswered(0, f"a pull outlived its {self.plan.expires:g} s")
        return None

    def next_look(self, now: float) -> float | None:
        """Return the seconds until :meth:`tick` or :meth:`pull` may act; None if only after an event."""
        return min((max(0.0, time - now) for time in self._times()), default=None)

    def _times(self) -> Iterator[float]:
        if self._open and self.phase is Phase.OPEN:
            yield self._heartbeat_due
            yield min(opened.deadline for opened in self._open.values())
        if self.is_pull_due:
            yield self._resume_at

    def on(self, event: Event) -> None:
        """Change the phase and forget all open pulls; back in OPEN, a new one goes out without a pause."""
        self.phase = _NEXT.get((self.phase, event), self.phase)
        self._lose_pulls()
        if event in {Event.RECONNECTED, Event.RECOVERED}:
            self._pause, self._resume_at = PAUSE_MIN, 0.0

    def not_sent(self, number: int, now: float) -> None:
        """Take back a pull that could not be written to the connection."""
        opened = self._open.pop(number, None)
        if opened is not None:
            self.credit_messages = max(0, self.credit_messages - opened.pull.batch)
            self.credit_bytes = max(0, self.credit_bytes - opened.pull.max_bytes)
            self.pause(now)

    def pause(self, now: float) -> float:
        """Begin a pause before the next attempt; return its seconds."""
        kept, self._pause = self._pause, min(self._pause * 2, PAUSE_MAX)
        self._resume_at = now + kept
        return kept

    def _heard(self, now: float) -> None:
        self._heartbeat_due = now + 2 * self.plan.idle_heartbeat

    def _lose_pulls(self) -> None:
        self._open.clear()
        self._no_credit()
        self._until_empty = False

    def _no_credit(self) -> None:
        self.credit_messages = self.credit_bytes = 0
