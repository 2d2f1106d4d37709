"""Where ``silt sql`` gets its answers: DuckDB in this process, Spark, or a server (:mod:`api.cli.sql_server`)."""

import os
from collections.abc import Iterator
from contextlib import chdir
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from api.formats.encoding import encode
from api.formats.table_format import TableFormat
from conf.data_location import DataLocation
from conf.error_text import error_text
from delta_store.sql.sql_errors import invalid


class SqlSource(Protocol):
    """Answers statements, one at a time."""

    def chunks(self, statement: str, kind: TableFormat) -> Iterator[bytes]:
        """Run a statement; iterate over the bytes of its answer. Raises what :func:`told` knows."""
        ...

    def cancel(self) -> None:
        """End what runs, from another thread."""
        ...

    def progress(self) -> float | None:
        """Return the part that is done, 0 to 1; None where it is not known."""
        ...


class EmbeddedSql:
    """DuckDB in this process."""

    def __init__(self, data: DataLocation, *, seconds: float | None, lasting: bool = False) -> None:
        """Answer within ``seconds``; ``lasting`` for several statements, see :class:`SqlEngine`."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here multiplies matrices, and threads take time

        from dataclasses import replace

        from delta_store.reading.arrow_start import without_pandas
        from delta_store.sql.sql_engine import SqlEngine
        from delta_store.sql.sql_limits import BY_HAND

        without_pandas()
        self._engine = SqlEngine.open(data, limits=replace(BY_HAND, seconds=seconds), lasting=lasting)
        self._running: Any = None

    def chunks(self, statement: str, kind: TableFormat) -> Iterator[bytes]:
        """Run a statement; iterate over the bytes of its answer."""
        with self._engine.query(statement) as query:
            self._running = query
            yield from encode(kind, query.run(), query.batches())

    def cancel(self) -> None:
        """End what runs."""
        if self._running is not None:
            self._running.cancel()

    def progress(self) -> float | None:
        """Return the part that is done."""
        found: float | None = None if self._running is None else self._running.progress()
        return found


class SparkSql:
    """Spark, in this process or wherever its settings say."""

    def __init__(self, data: DataLocation) -> None:
        self._data = data

    def chunks(self, statement: str, kind: TableFormat) -> Iterator[bytes]:
        """Run a statement; iterate over the bytes of its answer, which is in memory as a whole."""
        from delta_store.settling.sql_views import run_sql

        with TemporaryDirectory(prefix="silt-sql-") as folder, chdir(folder):  # Spark leaves files in its folder
            try:
                answer = run_sql(self._data, statement)
            except Exception as error:
                raise invalid(_without_plan(error_text(error))) from error
        yield from encode(kind, answer.schema, answer.to_batches())

    def cancel(self) -> None:
        """Do nothing: Spark's own handler of the signal ends the process."""

    def progress(self) -> float | None:
        """Return None: Spark shows its own."""
        return None


def _without_plan(text: str) -> str:
    """Return Spark's message without the query plan behind it."""
    return text.strip().partition(";\n")[0].partition("\n\tat ")[0]
