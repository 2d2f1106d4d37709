"""The texts of ``silt views`` run by the engines that are here: DuckDB and Polars.

DuckDB's own ``delta_scan`` is an extension that is not on every machine: a macro over delta-rs takes its place.
"""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from deltalake import DeltaTable

from delta_store.heads import view_text
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine

_SCAN = re.compile(r"delta_scan\('([^']*)'(?:, version := (\d+))?\)")


def duckdb_rows(text: str, view: str) -> dict[str, set[int]]:
    """Make a view and return the sequences in it by stream."""
    with duckdb.connect() as connection:
        known: dict[str, str] = {}

        def scanned(found: re.Match[str]) -> str:
            name = known.setdefault(found[0], f"scan_{len(known)}")
            version = None if found[2] is None else int(found[2])
            connection.register(name, DeltaTable(found[1], version=version).to_pyarrow_dataset())
            return name

        connection.execute(_SCAN.sub(scanned, text))
        return _by_stream(connection.execute(f'SELECT stream, seq FROM "{view}"').fetchall())


def polars_rows(text: str, call: str) -> dict[str, set[int]]:
    """Run the text, then collect the LazyFrame that ``call`` gives; return the sequences in it by stream."""
    names: dict[str, Any] = {}
    exec(text, names)  # the text is ours
    frame: pl.LazyFrame = eval(call, names)
    return _by_stream(frame.select("stream", "seq").collect().rows())


def live(data: Path | str) -> list[dict[str, set[int]]]:
    """Return what is live by each engine."""
    return [
        duckdb_rows(view_text.live_view(ViewEngine.DUCKDB, str(data)), LIVE_VIEW),
        polars_rows(view_text.polars_text(str(data)), "live()"),
    ]


def past(data: Path | str, point: PastPoint) -> list[set[int]]:
    """Return a stream's state at a point by each engine."""
    stream = point.head.stream
    found = [
        duckdb_rows(view_text.past_view(ViewEngine.DUCKDB, str(data), point), stream),
        polars_rows(view_text.polars_text(str(data), [point]), f"streams[{stream!r}]"),
    ]
    return [one.get(stream, set()) for one in found]


def _by_stream(rows: list[tuple[Any, ...]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for stream, seq in rows:
        assert seq not in found.setdefault(stream, set()), (stream, seq)
        found[stream].add(seq)
    return found
