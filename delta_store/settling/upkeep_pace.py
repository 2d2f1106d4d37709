"""When maintenance of ``messages`` is due. Pure.

Maintenance and batches share one lock. However long a round takes, and however short the intervals are, maintenance
then rests three times as long, so at least three quarters of the time are left to settling.
"""

from dataclasses import dataclass, field

from conf.limits import CLEANUP_GRACE_SECONDS, UPKEEP_REST_FACTOR


@dataclass(frozen=True, slots=True)
class Schedule:
    """Intervals of maintenance in seconds, from the end of one round to the start of the next."""

    compact_interval_seconds: float = 300.0
    """Also the interval at which dead rows are deleted, however few."""
    vacuum_interval_seconds: float = 3600.0

    @property
    def grace_seconds(self) -> float:
        """How long ago a message must have been removed to be deleted."""
        return min(CLEANUP_GRACE_SECONDS, self.compact_interval_seconds)


@dataclass(slots=True)
class UpkeepPace:
    """What is due at a time; all times are seconds of one monotonic clock."""

    schedule: Schedule
    started: float
    """Start of the process: the first round comes an interval after it."""
    _round_ended: float = field(init=False)
    _vacuum_ended: float = field(init=False)
    _rest_until: float = field(init=False)

    def __post_init__(self) -> None:
        self._round_ended = self._vacuum_ended = self._rest_until = self.started

    def rests(self, now: float) -> bool:
        """Whether maintenance must rest from its last round, whatever is due."""
        return now < self._rest_until

    def round_due(self, now: float) -> bool:
        """Whether dead rows, however few, are to be deleted and small files are to be merged."""
        return not self.rests(now) and now - self._round_ended >= self.schedule.compact_interval_seconds

    def vacuum_due(self, now: float) -> bool:
        """Whether files and log entries that have left the table are to be deleted."""
        return not self.rests(now) and now - self._vacuum_ended >= self.schedule.vacuum_interval_seconds

    def ended(self, began: float, now: float) -> None:
        """Note that what was due at ``began`` has ended, done or failed."""
        if self.round_due(began):
            self._round_ended = now
        if self.vacuum_due(began):
            self._vacuum_ended = now
        self._rest_until = now + UPKEEP_REST_FACTOR * (now - began)
