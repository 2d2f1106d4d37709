"""Answers of the SQL engine as plain rows, for tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conf.clock import Clock
from conf.data_location import DataLocation
from delta_store.sql.sql_engine import SqlEngine
from delta_store.sql.sql_limits import SqlLimits


def engine_on(
    data: Path | DataLocation, *, clock: Clock | None = None, limits: SqlLimits | None = None, lasting: bool = True
) -> SqlEngine:
    """Return an engine that reads a data folder, or an object store."""
    location = data if isinstance(data, DataLocation) else DataLocation(str(data))
    return SqlEngine.open(location, clock=clock, limits=limits or SqlLimits(seconds=120, threads=1), lasting=lasting)


def rows_of(engine: SqlEngine, text: str, *parameters: Any) -> list[dict[str, Any]]:
    """Return the rows that answer a statement."""
    with engine.query(text, parameters) as query:
        query.run()
        return [row for batch in query.batches() for row in batch.to_pylist()]


def column_of(engine: SqlEngine, text: str, *parameters: Any) -> list[Any]:
    """Return the values of the only column of an answer."""
    return [value for row in rows_of(engine, text, *parameters) for value in row.values()]


def error_of(engine: SqlEngine, text: str, parameters: Sequence[Any] = ()) -> Exception | None:
    """Return the error that answers a statement, None when rows do."""
    try:
        rows_of(engine, text, *parameters)
    except Exception as error:  # noqa: BLE001  # the test looks at it
        return error
    return None
