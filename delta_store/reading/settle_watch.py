"""The state of settling, for processes that do not own the journal: the job's own report, and the journal's lag.

The journal's log is followed by a reader of its own, opened at the first call.
"""

from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from conf.clock import Clock
from delta_store.entries.settle_lag import Lag, lag_of
from delta_store.log.followed_journal import FollowedJournal
from delta_store.reading.settle_state import SettleNews, SettleState, StateListener
from delta_store.values.journal_errors import JournalError
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_FOLDER
from delta_store.values.watermark import Watermarks

_KEPT_SECONDS = 1.0


class SettleReport(NamedTuple):
    """The state of settling."""

    news: SettleNews
    lag: Lag | None
    """None when the journal's log can't be read."""
    seconds: float
    """Age of the oldest unsettled row."""


NO_REPORT = SettleReport(SettleNews(SettleState.SILENT), None, 0.0)


class SettleWatch:
    """A watch on a data folder (or URL). Thread-safe; an answer may be a second old."""

    def __init__(self, location: str, clock: Clock, *, storage_options: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self._listener = StateListener(location, clock, storage_options=storage_options)
        self._journal = FollowedJournal(f"{location}/{JOURNAL_FOLDER}", storage_options)
        self._lock = Lock()
        self._last: tuple[float, SettleReport] = (-_KEPT_SECONDS, NO_REPORT)

    def look(self, watermarks: Watermarks) -> SettleReport:
        """Return the state of settling, given the watermarks of ``messages``. Blocks."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._last[0] < _KEPT_SECONDS:
                return self._last[1]
            now_ns = self._clock.now_ns()
            news = self._listener.news()
            report = SettleReport(news, None, 0.0)
            with suppress(JournalError, DamagedData):
                settled = {name: mark.position for name, mark in watermarks.items()}
                lag = lag_of(self._journal.newest().live_files(), settled)
                report = SettleReport(news, lag, lag.seconds(now_ns))
            self._last = (now, report)
            return report
