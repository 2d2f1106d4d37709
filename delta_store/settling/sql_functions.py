"""The table functions of Silt in Spark SQL: each call is answered by DuckDB in a Python worker, without Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

from conf.data_location import DataLocation

MESSAGES: Final = (
    "subject STRING, seq BIGINT, time TIMESTAMP, ts_ns BIGINT, headers MAP<STRING, ARRAY<STRING>>, data BINARY,"
    " text STRING, json STRING, tokens ARRAY<STRING>, msg_id STRING, size BIGINT"
)
_DIFFERENCE: Final = (
    "subject STRING, change STRING, seq_before BIGINT, seq_after BIGINT, time_before TIMESTAMP, time_after TIMESTAMP,"
    " data_before BINARY, data_after BINARY, text_before STRING, text_after STRING"
)
_VERSIONS: Final = (
    "version BIGINT, committed TIMESTAMP, first_seq BIGINT, last_seq BIGINT, first_time TIMESTAMP, last_time TIMESTAMP"
)


def register_functions(spark: SparkSession, data: DataLocation) -> None:
    """Register ``as_of``, ``multi_last``, ``diff`` and ``versions`` over one store."""

    class AsOfRows:
        def eval(self, stream: str, point: Any) -> Any:
            from delta_store.settling.sql_functions import answered

            yield from answered(data, "as_of(?, ?)", stream, point)

    class MultiLastRows:
        def eval(
            self, stream: str, subjects: Any, point: Any = None, up_to_seq: int | None = None, up_to_time: Any = None
        ) -> Any:
            from delta_store.settling.sql_functions import answered

            points = [one for one in (point, up_to_seq, up_to_time) if one is not None][:1]
            yield from answered(data, f"multi_last(?, ?{', ?' * len(points)})", stream, subjects, *points)

    class DiffRows:
        def eval(self, stream: str, a: Any, b: Any) -> Any:
            from delta_store.settling.sql_functions import answered

            yield from answered(data, "diff(?, ?, ?)", stream, a, b)

    class VersionRows:
        def eval(self, stream: str) -> Any:
            from delta_store.settling.sql_functions import answered

            yield from answered(data, "versions(?)", stream)

    functions: tuple[tuple[str, Any, str], ...] = (
        ("as_of", AsOfRows, MESSAGES),
        ("multi_last", MultiLastRows, MESSAGES),
        ("diff", DiffRows, _DIFFERENCE),
        ("versions", VersionRows, _VERSIONS),
    )
    for name, rows, columns in functions:
        made: Any = udtf(rows, returnType=columns)
        spark.udtf.register(name, made)


def answered(data: DataLocation, call: str, *arguments: Any) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of a call, as a Python worker hands them to Spark."""
    given = [_plain(argument) for argument in arguments]
    with _engine(data.uri, tuple(sorted(data.options.items()))).query(f"SELECT * FROM {call}", given) as query:  # noqa: S608
        schema = query.run()
        maps = [place for place, field in enumerate(schema) if field.name == "headers"]
        for batch in query.batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield tuple(dict(value) if place in maps and value else value for place, value in enumerate(row))


def _plain(argument: Any) -> Any:
    """Return a point with its zone: Spark's timestamps are in UTC and say nothing of it."""
    if isinstance(argument, datetime):
        return argument.astimezone(UTC)
    return argument


@lru_cache(maxsize=1)
def _engine(uri: str, options: tuple[tuple[str, str], ...]) -> Any:
    from delta_store.sql.sql_engine import SqlEngine
    from delta_store.sql.sql_limits import BY_HAND

    return SqlEngine.open(DataLocation(uri, dict(options)), limits=BY_HAND)
