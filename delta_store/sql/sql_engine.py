"""SQL over one store: a statement in, Arrow batches out. Blocking and thread-safe; each query belongs to one thread.

A query pins both tables when it runs and sees that state alone, settled or not. What it may do is decided before
anything runs (:mod:`delta_store.sql.statement`), and DuckDB is fenced besides (:mod:`delta_store.sql.duck_session`).
"""

from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Any, Self

import pyarrow as pa

from conf.clock import Clock, SystemClock
from conf.data_location import DataLocation
from delta_store.reading.journal_tail import JournalTail, open_tables
from delta_store.reading.point_in_time import VIEW_TRIES
from delta_store.reading.settled import SettledTable
from delta_store.sql.binding import Binding, Readable, every_stream
from delta_store.sql.duck_session import DuckSession, Parameters
from delta_store.sql.fence import BeyondFence
from delta_store.sql.lasting_sessions import LastingSessions
from delta_store.sql.sql_errors import SqlError, SqlErrorKind, invalid
from delta_store.sql.sql_limits import SqlLimits
from delta_store.sql.statement import Statement, by_name, read_statement
from delta_store.sql.store_state import Known, StoreState
from delta_store.values.read_errors import FileGone


class SqlEngine:
    """Answers SQL over one store."""

    def __init__(
        self,
        settled: SettledTable,
        journal: JournalTail,
        *,
        limits: SqlLimits | None = None,
        clock: Clock | None = None,
        lasting: bool = False,
    ) -> None:
        """Take the tables; a ``lasting`` engine keeps what makes its next query start sooner, see ``sessions``."""
        self._settled, self._journal = settled, journal
        self._limits, self._clock = limits or SqlLimits(), clock or SystemClock()
        self._sessions = LastingSessions() if lasting else None
        self._known: Known | None = None

    @classmethod
    def open(
        cls,
        location: DataLocation,
        *,
        limits: SqlLimits | None = None,
        clock: Clock | None = None,
        lasting: bool = False,
    ) -> Self:
        """Open the tables of a location read-only, as the constructor takes them; nothing is read yet."""
        return cls(*open_tables(location), limits=limits, clock=clock, lasting=lasting)

    def versions(self) -> tuple[int, int]:
        """Return the newest versions of ``journal`` and ``messages``. Raises ``DamagedData``."""
        state = self.state()
        return state.versions

    def streams(self) -> list[str]:
        """Return the existing streams. Raises a read error."""
        return sorted(self.state().heads)

    def query(
        self,
        text: str,
        parameters: Parameters = (),
        *,
        limits: SqlLimits | None = None,
        readable: Readable = every_stream,
    ) -> "SqlQuery":
        """Return a query, which nothing has looked at yet.

        Streams that are not ``readable`` don't exist for it.
        """
        return SqlQuery(self, text, parameters, limits or self._limits, readable)

    def state(self) -> StoreState:
        """Return the store pinned at its newest versions. Raises ``DamagedData``."""
        state = StoreState(self._settled, self._journal, now_ns=self._clock.now_ns(), known=self._known)
        self._known = state.known
        return state

    def sessions(self, limits: SqlLimits) -> Iterator[DuckSession]:
        """Iterate over the sessions that a statement may try; the last one is fresh."""
        return iter([DuckSession(limits)]) if self._sessions is None else self._sessions.offers(limits)

    def release(self, session: DuckSession, *, sound: bool) -> None:
        """Take back a session that is over; ``sound`` if its statement ended well."""
        if self._sessions is None:
            session.close()
        else:
            self._sessions.take_back(session, sound=sound)


class SqlQuery:
    """One statement's run. Only :meth:`cancel` and :meth:`progress` may be called by other threads."""

    def __init__(
        self, engine: SqlEngine, text: str, parameters: Parameters, limits: SqlLimits, readable: Readable
    ) -> None:
        self._engine, self._text, self._parameters = engine, text, parameters
        self._limits, self._readable = limits, readable
        self._lock = Lock()
        self._session: DuckSession | None = None
        self._cancelled = False
        self._reader: Any = None
        self._is_read = False
        """Whether all rows of the answer were read."""
        self.is_over = False
        """Whether it was closed."""
        self.versions = (-1, -1)
        """The versions of ``journal`` and ``messages`` that it reads, once it runs."""
        self.files: frozenset[str] = frozenset()
        """The settled files that it reads."""

    def run(self) -> pa.Schema:
        """Check, pin, bind and start; return the answer's columns once its first rows are there.

        Raises :class:`delta_store.sql.sql_errors.SqlError`, or ``DamagedData``, ``NoSuchStream``, ``PastHorizon``,
        ``StoreAway``, ``FileGone``. A file that vacuum deletes meanwhile is a reason to begin anew.
        """
        if len(self._text.encode(errors="replace")) > self._limits.text_bytes:
            raise invalid(f"the statement is longer than {self._limits.text_bytes} bytes")
        for _ in range(VIEW_TRIES - 1):
            try:
                return self._started()
            except FileGone:
                continue
        return self._started()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows. Raises as :meth:`run`; the rows before an error have been returned."""
        assert self._session is not None, "run first"
        left = self._limits.rows
        while True:
            with self._session.telling():
                batch = next(self._reader, None)
            if batch is None:
                self._is_read = True
                return
            if left is not None:
                if batch.num_rows > left:
                    raise SqlError(SqlErrorKind.ROWS, f"the answer has more than {self._limits.rows} rows: add a LIMIT")
                left -= batch.num_rows
            yield batch

    def progress(self) -> float | None:
        """Return the part that is done, 0 to 1; None where it is not known."""
        with self._lock:
            return None if self._session is None else self._session.progress()

    def cancel(self) -> None:
        """End it; whoever runs it gets an error."""
        with self._lock:
            self._cancelled = True
            if self._session is not None:
                self._session.interrupt()

    def close(self) -> None:
        """Free what it holds."""
        self.is_over = True
        self._drop()

    def _drop(self) -> None:
        self._reader = None
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            self._engine.release(session, sound=self._is_read and not self._cancelled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> pa.Schema:
        state = None
        for session in self._engine.sessions(self._limits):
            self._drop()
            with self._lock:
                self._session = session
            statement = read_statement(session.parsed(self._text))
            state = state or self._engine.state()
            with suppress(BeyondFence):
                return self._bound(session, state, statement)
        raise AssertionError("a fresh session fits")

    def _bound(self, session: DuckSession, state: StoreState, statement: Statement) -> pa.Schema:
        binding = Binding(session, state, self._readable)
        values = by_name(self._parameters)
        binding.bind(statement, values)
        self.versions, self.files = state.versions, frozenset(binding.relations.files)
        text, given = self._text, self._parameters
        if statement.rewritten:
            given = statement.parameters_left(values)
            text = session.written(statement.as_json)
        session.fence()
        if self._cancelled:
            raise SqlError(SqlErrorKind.CANCELLED, "the statement was cancelled")
        self._reader = session.answer(text, given)
        schema: pa.Schema = self._reader.schema
        return schema
