"""One statement's run from the command: its answer to a file, progress on a terminal, Ctrl-C to end it."""

import time
from collections.abc import Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import BinaryIO, Final, Self, TextIO

from api.cli.sql_sources import SqlSource
from api.formats.table_format import TableFormat
from delta_store.sql.sql_errors import SqlError, SqlErrorKind

_AHEAD: Final = 8
"""Chunks that are made before the last is written."""
_TICK_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 1.0
"""What is over by then shows no progress."""
_BAR: Final = 30


def run(source: SqlSource, statement: str, kind: TableFormat, to: BinaryIO, *, progress: TextIO | None = None) -> None:
    """Run a statement and write its answer; show progress on a terminal, if there is one.

    Raises what the source raises; Ctrl-C ends the statement, which then raises ``SqlError``.
    """
    answer = _AnswerMade(source, statement, kind)
    with _Progress(source, progress) as shown:
        for chunk in answer.chunks(shown):
            shown.clear()
            to.write(chunk)
            to.flush()


class _AnswerMade:
    """An answer that a thread of its own makes: so Ctrl-C is heard while DuckDB computes."""

    def __init__(self, source: SqlSource, statement: str, kind: TableFormat) -> None:
        self._source, self._statement, self._kind = source, statement, kind
        self._made: Queue[bytes | BaseException | None] = Queue(_AHEAD)
        self._over = Event()

    def chunks(self, shown: "_Progress") -> Iterator[bytes]:
        """Iterate over the chunks, and tell of the time in between."""
        maker = Thread(target=self._make, name="sql", daemon=True)
        maker.start()
        try:
            while (made := self._next(shown)) is not None:
                if isinstance(made, BaseException):
                    raise made
                yield made
        except KeyboardInterrupt:
            raise SqlError(SqlErrorKind.CANCELLED, "cancelled") from None
        finally:
            self._over.set()
            while maker.is_alive():
                self._source.cancel()
                maker.join(_TICK_SECONDS)

    def _next(self, shown: "_Progress") -> bytes | BaseException | None:
        while True:
            try:
                return self._made.get(timeout=_TICK_SECONDS)
            except Empty:
                shown.tick()

    def _make(self) -> None:
        try:
            for chunk in self._source.chunks(self._statement, self._kind):
                self._put(chunk)
        except BaseException as error:  # noqa: BLE001  # raised again where the answer is written
            self._put(error)
        else:
            self._put(None)

    def _put(self, made: bytes | BaseException | None) -> None:
        """Hand on what was made, unless nobody wants it any more."""
        while not self._over.is_set():
            try:
                self._made.put(made, timeout=_TICK_SECONDS)
            except Full:
                continue
            return


class _Progress:
    """A line on a terminal that tells how far a statement is."""

    def __init__(self, source: SqlSource, terminal: TextIO | None) -> None:
        self._source = source
        self._terminal = terminal if terminal is not None and terminal.isatty() else None
        self._began = time.perf_counter()
        self._shown = False

    def tick(self) -> None:
        """Show the line, once it has taken a while."""
        seconds = time.perf_counter() - self._began
        if self._terminal is None or seconds < _QUIET_SECONDS:
            return
        part = self._source.progress()
        bar = "" if part is None else f"{'=' * round(part * _BAR):<{_BAR}} {part:4.0%} "
        self._terminal.write(f"\r\033[K{bar}{seconds:.0f} s, Ctrl-C cancels")
        self._terminal.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown and self._terminal is not None:
            self._terminal.write("\r\033[K")
            self._terminal.flush()
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
