"""The texts of ``silt views`` run by the engines that are here: DuckDB and Polars.

DuckDB's own ``delta_scan`` is an extension that is not on every machine: a macro over delta-rs takes its place.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from delta_store.heads import view_text
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine

_SCAN = re.compile(r"delta_scan\('([^']*)'(?:, version := (\d+))?\)")


def duckdb_table(
    text: str, view: str, *, pinned: Callable[[str], object] = str, rest_reversed: bool = False
) -> pa.Table:
    """Make a view and return its rows.

    Its tables are pinned as the text names them, or those behind the first the other way round; ``pinned`` is called
    after each with its path.
    """
    scans = list(dict.fromkeys(_SCAN.findall(text)))
    with duckdb.connect() as connection:
        for path, version in [scans[0], *(scans[:0:-1] if rest_reversed else scans[1:])]:
            table = DeltaTable(path, version=int(version) if version else None)
            connection.register(f"scan_{scans.index((path, version))}", table.to_pyarrow_dataset())
            pinned(path)
        connection.execute(_SCAN.sub(lambda found: f"scan_{scans.index((found[1], found[2] or ''))}", text))
        return connection.sql(f'SELECT * FROM "{view}"').to_arrow_table()


def polars_table(text: str, call: str) -> pa.Table:
    """Run the text, then collect the LazyFrame that ``call`` gives."""
    names: dict[str, Any] = {}
    exec(text, names)  # the text is ours
    frame: pl.LazyFrame = eval(call, names)
    return frame.collect().to_arrow()


def live_tables(data: Path | str, stream: str | None = None) -> dict[str, pa.Table]:
    """Return what is live, of one stream or of all, by engine."""
    view = LIVE_VIEW if stream is None else stream
    text = view_text.live_view(ViewEngine.DUCKDB, str(data), name=view, stream=stream)
    call = "live()" if stream is None else f"live({stream!r})"
    return {"DuckDB": duckdb_table(text, view), "Polars": polars_table(view_text.polars_text(str(data)), call)}


def past_tables(data: Path | str, point: PastPoint) -> dict[str, pa.Table]:
    """Return a stream's state at a point by engine."""
    stream = point.head.stream
    return {
        "DuckDB": duckdb_table(view_text.past_view(ViewEngine.DUCKDB, str(data), point), stream),
        "Polars": polars_table(view_text.polars_text(str(data), [point]), f"streams[{stream!r}]"),
    }


def live(data: Path | str) -> list[dict[str, set[int]]]:
    """Return the sequences that are live, by stream, by each engine."""
    return [by_stream(table) for table in live_tables(data).values()]


def past(data: Path | str, point: PastPoint) -> list[set[int]]:
    """Return the sequences of a stream's state at a point by each engine."""
    found = [by_stream(table) for table in past_tables(data, point).values()]
    return [one.get(point.head.stream, set()) for one in found]


def by_stream(table: pa.Table) -> dict[str, set[int]]:
    """Return the sequences of rows by stream, each there once."""
    found: dict[str, set[int]] = {}
    for stream, seq in zip(table["stream"].to_pylist(), table["seq"].to_pylist(), strict=True):
        assert seq not in found.setdefault(stream, set()), (stream, seq)
        found[stream].add(seq)
    return found
