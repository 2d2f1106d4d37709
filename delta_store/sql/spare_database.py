"""A DuckDB opened ahead: opening takes 20 ms, more than many a statement, and each statement gets one of its own."""

from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from delta_store.sql.duck_session import DuckSession, opened
from delta_store.sql.sql_limits import SqlLimits


class SpareDatabase:
    """Opens the next statement's database when the last one's is closed, never both at once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._working: Thread | None = None
        self._spare: tuple[SqlLimits, Any] | None = None

    def session(self, limits: SqlLimits) -> DuckSession:
        """Return a session over the spare, if there is one with these limits."""
        with self._lock:
            self._wait()
            spare, self._spare = self._spare, None
        if spare is not None and spare[0] != limits:
            spare[1].close()
            spare = None
        return DuckSession(limits, None if spare is None else spare[1])

    def replace(self, over: DuckSession, limits: SqlLimits) -> None:
        """Close a session and open a spare, in a thread that the end of the process waits for."""
        with self._lock:
            self._wait()
            self._working = Thread(target=self._replace, args=(over, limits), name="sql spare", daemon=False)
            self._working.start()

    def _wait(self) -> None:
        if self._working is not None:
            self._working.join()
            self._working = None

    def _replace(self, over: DuckSession, limits: SqlLimits) -> None:
        with suppress(Exception):  # the next statement opens its own, and tells
            over.close()
            self._spare = self._spare or (limits, opened(limits))
