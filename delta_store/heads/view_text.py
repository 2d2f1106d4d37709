"""The text of views over the raw tables, for engines that know nothing of Silt: a stream's live state, or a past one.

The rules, in SQL. Live: of the newest row of ``heads``, the messages from ``first_seq`` to ``watermark`` that no row of
``removed`` up to its ``version`` names. At sequence S, or before time T: in the versions of the row of ``heads`` that
holds it, the messages up to S (before T) from the highest ``first_seq`` recorded by then on that no row of ``removed``
names that took effect by then (``at_seq`` up to S, ``ts_ns`` before T), and none that erases, however late.

Removed ranges are matched by blocks of 1024 sequences, so that matching is a join on equal keys. Each table is named
once, ``heads`` first: engines pin tables as they come to them, and the others have all that ``heads`` tells of. Pure.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from delta_store.entries.head_rows import HeadRow
from delta_store.entries.removed_rows import EVICTED
from delta_store.values.schemas import HEADS_FOLDER, MESSAGES_FOLDER, REMOVED_FOLDER

LIVE_VIEW: Final = "live_messages"
COLUMNS: Final = ("stream", "subject", "seq", "time", "ts_ns", "msg_id", "headers", "data", "size")


class ViewEngine(StrEnum):
    """The engines that a text can be made for; the values are those of ``--engine``."""

    SPARK = "spark"
    DATABRICKS = "databricks"
    DUCKDB = "duckdb"
    POLARS = "polars"


class PastPoint(NamedTuple):
    """A past point of one stream, and the row of ``heads`` whose versions hold it."""

    head: HeadRow
    seq: int | None
    before_ns: int | None
    """The point is this time (exclusive) where there is no sequence; with one, removals behind it count until then."""


class _Dialect(NamedTuple):
    """What an engine says differently. ``{}`` is an expression; tables are named by name and version."""

    create: str
    quote: str
    """The character around names."""
    block: str
    """The block of a sequence."""
    blocks: str
    """A row for each block from one to another."""
    time: str
    """The timestamp of ns since 1970."""
    table: Callable[[str, str, int | None], str]
    """The table in the data location, with its name, at a version."""

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _by_path(data: str, name: str, version: int | None) -> str:
    path = f"{data}/{name}".replace("`", "``")
    return f"delta.`{path}`" + ("" if version is None else f" VERSION AS OF {version}")


def _by_name(_data: str, name: str, version: int | None) -> str:
    return name + ("" if version is None else f" VERSION AS OF {version}")


def _by_scan(data: str, name: str, version: int | None) -> str:
    pinned = "" if version is None else f", version := {version}"
    return f"delta_scan({_text(f'{data}/{name}')}{pinned})"


_SPARK: Final = _Dialect(
    "CREATE OR REPLACE TEMPORARY VIEW",
    "`",
    "shiftright({}, 10)",
    "explode(sequence(shiftright({}, 10), shiftright({}, 10)))",
    "timestamp_micros({} DIV 1000)",
    _by_path,
)
_DIALECTS: Final = {
    ViewEngine.SPARK: _SPARK,
    ViewEngine.DATABRICKS: _SPARK._replace(create="CREATE OR REPLACE VIEW", table=_by_name),
    ViewEngine.DUCKDB: _Dialect(
        "CREATE OR REPLACE VIEW",
        '"',
        "({} >> 10)",
        "unnest(generate_series({} >> 10, {} >> 10))",
        "make_timestamptz({} // 1000)",
        _by_scan,
    ),
}


def live_view(engine: ViewEngine, data: str, *, name: str = LIVE_VIEW, stream: str | None = None) -> str:
    """Return the statement that makes the view of what is live now, of one stream or of all."""
    said = _DIALECTS[engine]
    chosen, of_stream = (
        ("", "") if stream is None else (f"\n  WHERE stream = {_text(stream)}", f" AND m.stream = {_text(stream)}")
    )
    heads, removed, messages = (said.table(data, one, None) for one in (HEADS_FOLDER, REMOVED_FOLDER, MESSAGES_FOLDER))
    return f"""{said.create} {said.quoted(name)} AS
WITH ranked AS (
  SELECT *, row_number() OVER (PARTITION BY stream ORDER BY version DESC, stream_id DESC) AS place
  FROM {heads}{chosen}
),
head AS (SELECT * FROM ranked WHERE place = 1 AND config IS NOT NULL),
gone AS (
  SELECT *, {said.blocks.format("low", "high")} AS block
  FROM {removed}{chosen}
)
SELECT {_columns(said)}
FROM head JOIN {messages} AS m ON m.stream = head.stream AND m.stream_id = head.stream_id
WHERE m.subject_partition NOT IN ('$events', '$consumers') AND m.kind = 'message'{of_stream}
  AND m.seq BETWEEN head.first_seq AND head.watermark
  AND NOT EXISTS (
    SELECT 1 FROM gone
    WHERE gone.stream = m.stream AND gone.stream_id = m.stream_id AND gone.block = {said.block.format("m.seq")}
      AND m.seq BETWEEN gone.low AND gone.high AND gone.version <= head.version
  );
"""  # noqa: S608  # names and texts are quoted


def past_view(engine: ViewEngine, data: str, point: PastPoint) -> str:
    """Return the statement that makes the view of one stream at a past point, which never changes."""
    said, head = _DIALECTS[engine], point.head
    if point.seq is not None:
        inside = f"m.seq <= {point.seq}"
        recorded = f"seq < {point.seq} OR (seq = {point.seq} AND kind = 'message')"
        happened = f"at_seq <= {point.seq}"
        if point.before_ns:
            recorded = f"seq < {point.seq} OR (seq = {point.seq} AND (kind = 'message' OR ts_ns < {point.before_ns}))"
            behind = f"at_seq = {point.seq + 1} AND ts_ns < {point.before_ns} AND reason <> '{EVICTED}'"
            happened = f"({happened} OR ({behind}))"
    else:
        inside, recorded = f"m.ts_ns < {point.before_ns}", f"ts_ns < {point.before_ns}"
        happened = recorded
    messages = said.table(data, MESSAGES_FOLDER, head.version)
    removed, erased = (said.table(data, REMOVED_FOLDER, one) for one in (head.removed_version, None))
    return f"""{said.create} {said.quoted(head.stream)} AS
WITH past AS (
  SELECT * FROM {messages}
  WHERE stream = {_text(head.stream)} AND stream_id = {head.stream_id} AND subject_partition <> '$consumers'
),
ranges AS (
  SELECT low, high FROM {removed} WHERE stream_id = {head.stream_id} AND {happened}
  UNION ALL
  SELECT low, high FROM {erased} WHERE stream_id = {head.stream_id} AND erase
),
gone AS (
  SELECT low, high, {said.blocks.format("low", "high")} AS block
  FROM ranges
)
SELECT {_columns(said)}
FROM past AS m
WHERE m.kind = 'message' AND {inside}
  AND m.seq >= (SELECT max(first_seq) FROM past WHERE {recorded})
  AND NOT EXISTS (
    SELECT 1 FROM gone
    WHERE gone.block = {said.block.format("m.seq")} AND m.seq BETWEEN gone.low AND gone.high
  );
"""  # noqa: S608  # names and texts are quoted


def stream_view(engine: ViewEngine, stream: str) -> str:
    """Return the statement that makes the view of one stream of :data:`LIVE_VIEW`."""
    said = _DIALECTS[engine]
    return (
        f"{said.create} {said.quoted(stream)} AS\n"
        f"SELECT * FROM {said.quoted(LIVE_VIEW)} WHERE stream = {_text(stream)};\n"
    )


def tables(data: str) -> str:
    """Return the statements that register the tables in a catalog, as external ones."""
    names = (MESSAGES_FOLDER, REMOVED_FOLDER, HEADS_FOLDER)
    return "".join(
        f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {_text(f'{data}/{name}')};\n" for name in names
    )


def polars_text(data: str, points: Iterable[PastPoint] | None = None) -> str:
    """Return Python that gives the live state of any stream as a LazyFrame, or past states by their streams' names."""
    head = _POLARS.replace("@DATA@", repr(data))
    if points is None:
        return head + _POLARS_LIVE
    shown = "".join(
        f"    {one.head.stream!r}: past({one.head.stream!r}, {one.head.stream_id}, "
        f"({one.head.version}, {one.head.removed_version}), seq={one.seq}, before_ns={one.before_ns}),\n"
        for one in points
    )
    return f"{head}{_POLARS_PAST}\n\nstreams = {{\n{shown}}}\n"


def _columns(said: _Dialect) -> str:
    shown = {"time": f"{said.time.format('m.ts_ns')} AS time"}
    return ", ".join(shown.get(name, f"m.{name}") for name in COLUMNS).replace(" m.ts_ns, m.msg", "\n  m.ts_ns, m.msg")


_POLARS: Final = '''import polars as pl  # pip install polars deltalake

DATA = @DATA@
OPTIONS: dict[str, str] = {}  # of the object store, as delta-rs takes them


def table(name, version=None):
    return pl.scan_delta(f"{DATA}/{name}", version=version, storage_options=OPTIONS)


def without(messages, gone):
    """Leave out the messages in removed ranges, which are matched by blocks of 1024 sequences."""
    blocks = gone.with_columns(block=pl.int_ranges(pl.col("low") // 1024, pl.col("high") // 1024 + 1)).explode("block")
    named = messages.select("stream_id", "seq", block=pl.col("seq") // 1024).join(blocks, on=["stream_id", "block"])
    named = named.filter(pl.col("seq").is_between(pl.col("low"), pl.col("high")))
    live = messages.join(named, on=["stream_id", "seq"], how="anti")
    time = pl.from_epoch(pl.col("ts_ns") // 1000, time_unit="us").dt.replace_time_zone("UTC")
    return live.with_columns(time=time).select(
        "stream", "subject", "seq", "time", "ts_ns", "msg_id", "headers", "data", "size"
    )
'''
_POLARS_LIVE: Final = '''

def live(stream=None):
    """The live messages of a stream, or of all, up to the newest settled one, at the versions that heads names."""
    head = table("heads").sort("version", "stream_id").group_by("stream").last().collect()
    versions = [head[name].max() for name in ("version", "removed_version")]
    head = head.filter(pl.col("config").is_not_null())
    head = head if stream is None else head.filter(pl.col("stream") == stream)
    if not len(head):
        return without(table("messages").clear(), table("removed").clear())
    messages, removed = table("messages", versions[0]), table("removed", versions[1])
    bounds = head.lazy().select("stream_id", "watermark", head_version="version", front="first_seq")
    gone = removed.join(bounds, on="stream_id").filter(pl.col("version") <= pl.col("head_version"))
    messages = messages.filter(
        pl.col("stream").is_in(head["stream"].to_list())
        & ~pl.col("subject_partition").is_in(["$events", "$consumers"])
        & (pl.col("kind") == "message")
    )
    messages = messages.join(bounds, on="stream_id").filter(pl.col("seq").is_between("front", "watermark"))
    return without(messages, gone.select("stream_id", "low", "high"))
'''
_POLARS_PAST: Final = '''

def past(stream, stream_id, versions, *, seq=None, before_ns=None):
    """The messages of a stream that were live right after a sequence, or before a time; or both, of one instant."""
    message, this = pl.col("kind") == "message", pl.col("stream_id") == stream_id
    rows = table("messages", version=versions[0])
    rows = rows.filter((pl.col("stream") == stream) & this & (pl.col("subject_partition") != "$consumers"))
    if seq is not None:
        inside, behind = pl.col("seq") <= seq, pl.col("ts_ns") < (before_ns or 0)
        recorded = (pl.col("seq") < seq) | ((pl.col("seq") == seq) & (message | behind))
        behind &= (pl.col("at_seq") == seq + 1) & (pl.col("reason") != "evicted")
        happened = (pl.col("at_seq") <= seq) | behind
    else:
        inside = recorded = happened = pl.col("ts_ns") < before_ns
    front = rows.filter(recorded).select(pl.col("first_seq").max()).collect().item()
    gone = table("removed", version=versions[1]).filter(this & happened)
    erased = table("removed").filter(this & pl.col("erase"))
    gone = pl.concat([one.select("stream_id", "low", "high") for one in (gone, erased)])
    rows = rows.filter(message & inside & (pl.col("seq") >= (front if front is not None else 1 << 62)))
    return without(rows, gone)
'''
