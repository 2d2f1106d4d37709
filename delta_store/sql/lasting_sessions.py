"""Sessions for one statement after another: the last one's again where it fits, else one that was opened ahead.

Opening a DuckDB takes 25 ms of processor time, and making its views another 4: more than many a statement.
"""

from collections.abc import Iterator
from contextlib import suppress
from threading import Lock, Thread

from delta_store.sql.duck_session import DuckSession
from delta_store.sql.sql_limits import SqlLimits


class LastingSessions:
    """Keeps the last statement's session, and opens a spare one while nobody waits. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._working: Thread | None = None
        self._last: DuckSession | None = None
        self._spare: DuckSession | None = None

    def offers(self, limits: SqlLimits) -> Iterator[DuckSession]:
        """Iterate over the sessions that a statement may try, two at most; the last one is fresh."""
        with self._lock:
            last, self._last = self._last, None
        if (fitting := _fitting(last, limits)) is not None:
            yield fitting
        with self._lock:
            self._wait()
            spare, self._spare = self._spare, None
        yield _fitting(spare, limits) or DuckSession(limits)

    def take_back(self, session: DuckSession, *, sound: bool) -> None:
        """Take back a session; keep it where its statement ended well, and have a spare in any case."""
        if sound:
            try:
                session.clear()
            except Exception:  # noqa: BLE001  # then it is closed
                sound = False
        with self._lock:
            over: DuckSession | None = session
            if sound:
                over, self._last = self._last, session
            if over is not None or self._spare is None:
                self._wait()
                self._working = Thread(target=self._tidy, args=(over, session.limits), name="sql spare", daemon=False)
                self._working.start()

    def _wait(self) -> None:
        if self._working is not None:
            self._working.join()
            self._working = None

    def _tidy(self, over: DuckSession | None, limits: SqlLimits) -> None:
        """Close a session and open a spare, in a thread that the end of the process waits for."""
        with suppress(Exception):  # the next statement opens its own, and tells
            if over is not None:
                over.close()
            self._spare = self._spare or DuckSession(limits)


def _fitting(session: DuckSession | None, limits: SqlLimits) -> DuckSession | None:
    """Return a session for these limits; close one that is for others."""
    if session is not None and session.limits != limits:
        session.close()
        return None
    return session
