"""When maintenance of ``messages`` is due: pure decisions, so that settling always gets most of the time.

Upkeep and batches hold one lock. Whatever upkeep costs, and however short its intervals are, it rests three times as
long as it took, so at least three quarters of the time are left to settling.
"""

from dataclasses import dataclass, field

from conf.limits import UPKEEP_REST_FACTOR


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often maintenance is done, seconds from the end of one to the start of the next."""

    compact_interval_seconds: float = 300.0
    """Also how often everything dead is deleted, however little it is."""
    vacuum_interval_seconds: float = 3600.0
    horizon_seconds: float = 7 * 24 * 3600.0


@dataclass(slots=True)
class UpkeepPace:
    """What is due at a time; all times are seconds of one monotonic clock."""

    schedule: Schedule
    started: float
    """When the process started: the first round comes an interval after it."""
    _round_ended: float = field(init=False)
    _vacuum_ended: float = field(init=False)
    _rest_until: float = field(init=False)

    def __post_init__(self) -> None:
        self._round_ended = self._vacuum_ended = self._rest_until = self.started

    def rests(self, now: float) -> bool:
        """Whether nothing may be done yet, not even what would pay, because of what the last upkeep took."""
        return now < self._rest_until

    def round_due(self, now: float) -> bool:
        """Whether everything dead is to be deleted and small files are to be merged."""
        return not self.rests(now) and now - self._round_ended >= self.schedule.compact_interval_seconds

    def vacuum_due(self, now: float) -> bool:
        """Whether files and log entries that have left the table are to be deleted."""
        return not self.rests(now) and now - self._vacuum_ended >= self.schedule.vacuum_interval_seconds

    def ended(self, began: float, now: float) -> None:
        """Note that all that was due at ``began`` is over, done or failed."""
        if self.round_due(began):
            self._round_ended = now
        if self.vacuum_due(began):
            self._vacuum_ended = now
        self._rest_until = now + UPKEEP_REST_FACTOR * (now - began)
