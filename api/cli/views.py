"""``silt views``: the text of views over the raw tables, for engines that know nothing of Silt."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from api.cli.endings import ended, reading
from api.cli.options import DataOption
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.exit_codes import Exit
from conf.settings import load_settings
from delta_store.entries import head_rows
from delta_store.entries.head_rows import HeadRow
from delta_store.heads import view_text
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import PastPoint, ViewEngine
from delta_store.reading.cut_points import point_of
from delta_store.reading.point_in_time import Point, PointInTime, View, opened_tables
from delta_store.values.as_of import NOW, AsOf, NotAPoint, parse_as_of
from delta_store.values.schemas import MESSAGES_FOLDER


class NotHeld(LookupError):
    """The raw tables do not hold that state."""


def views(
    data: DataOption,
    *,
    engine: Annotated[ViewEngine, typer.Option("--engine", help="Whose language the text is in.")],
    stream: Annotated[str | None, typer.Option("--stream", help="Only this one. Default: all streams.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", help="A sequence (42), a time (2026-01-31T12:00:00Z), an age or cut:NAME. Default: now."
        ),
    ] = None,
) -> None:
    """Print CREATE VIEW statements (for Polars: Python) that show a stream's live messages, or those of a past point.

    The views need nothing but the tables. They show what is settled; a view of a past point never changes. A sequence
    belongs to one stream, so it needs --stream. Exit codes: 0 done; 1 the tables can't be read or do not hold that
    point; 2 not a point; 5 no such stream.
    """
    now = datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC)
    try:
        point = parse_as_of(as_of, now=now)
    except NotAPoint as error:
        raise typer.BadParameter(str(error), param_hint="--as-of") from None
    if point.seq is not None and stream is None:
        raise typer.BadParameter("a sequence belongs to one stream: name it with --stream", param_hint="--as-of")
    with reading("views", NotHeld):
        place = data.with_settings(load_settings().storage)
        rows = _rows(place)
        newest = head_rows.living(rows)
        if stream is not None and stream not in newest:
            raise ended("views", f"there is no stream {stream!r} among what is settled", Exit.NOT_FOUND)
        names = sorted(newest) if stream is None else [stream]
        if point == NOW:
            text = "\n".join(_live(engine, data.uri, names, alone=stream is not None))
        elif point.cut is None:
            text = past_text(engine, data.uri, [_point(rows, name, point) for name in names])
        else:
            past = PointInTime(*opened_tables(place))
            text = past_text(engine, data.uri, [_at_cut(rows, past, name, point) for name in names])
        typer.echo(text, nl=False)


def past_text(engine: ViewEngine, data: str, points: Sequence[PastPoint]) -> str:
    """Return the text for streams at past points."""
    if engine is ViewEngine.POLARS:
        return view_text.polars_text(data, points)
    texts = [view_text.past_view(engine, data, one) for one in points]
    return "\n".join([*_preamble(engine, data), *texts])


def _live(engine: ViewEngine, data: str, names: Sequence[str], *, alone: bool) -> Iterator[str]:
    if engine is ViewEngine.POLARS:
        yield view_text.polars_text(data)
        return
    yield from _preamble(engine, data)
    if alone:
        yield view_text.live_view(engine, data, name=names[0], stream=names[0])
        return
    yield view_text.live_view(engine, data)
    for name in names:
        yield view_text.stream_view(engine, name)


def _preamble(engine: ViewEngine, data: str) -> Iterator[str]:
    if engine is ViewEngine.DATABRICKS:
        yield view_text.tables(data)
    if engine is ViewEngine.DUCKDB:
        yield "INSTALL delta;\nLOAD delta;\n"


def _rows(data: DataLocation) -> list[HeadRow]:
    rows = read_heads(data.table(MESSAGES_FOLDER), data.options)
    if not rows:
        raise NotHeld(f"{data} has no table heads with rows: it comes with the first batch that silt settle settles")
    return rows


def _point(rows: Sequence[HeadRow], stream: str, at: AsOf) -> PastPoint:
    before_ns = None if at.time is None else round(at.time.timestamp() * 1e6) * 1000
    head = head_rows.holding(rows, stream, seq=at.seq, before_ns=before_ns)
    if head is not None:
        return PastPoint(head, at.seq, before_ns)
    newest = head_rows.living(rows)[stream]
    if at.seq is not None and at.seq > newest.watermark:
        raise NotHeld(f"stream {stream!r} is settled up to sequence {newest.watermark}: the journal has what follows")
    raise NotHeld(
        f"the versions that hold stream {stream!r} at that point are gone, or the table heads is younger; "
        "silt sql and the HTTP API may still have it"
    )


def _at_cut(rows: Sequence[HeadRow], past: PointInTime, stream: str, at: AsOf) -> PastPoint:
    """Return where a stream stood at a cut. Raises :class:`NotHeld`."""
    point, behind_ns = past.with_view(stream, partial(_place, past, at))
    seq = max(point.seq, 0)
    head = head_rows.holding(rows, stream, seq=seq, event_no=point.event_no) if seq else head_rows.holding(rows, stream)
    if head is None:
        raise NotHeld(
            f"stream {stream!r} is not settled up to cut {at.cut!r} yet, or the versions that hold it are gone; "
            "silt sql and the HTTP API may have it"
        )
    return PastPoint(head, seq, behind_ns)


def _place(past: PointInTime, at: AsOf, view: View) -> tuple[Point, int]:
    """Return a stream's point, and a time (exclusive) until which events behind its sequence count; 0 for none."""
    point = point_of(past, view, at)
    times = [event.ts_ns + 1 for event in view.events if event.seq == point.seq and point.includes(event)]
    return point, max(times, default=0)
