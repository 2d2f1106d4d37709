"""Every way in which a stream is read, for a test that compares them: each answers the same questions with messages."""

import asyncio
import json
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
from pyspark.sql import SparkSession

from api.spark import register
from delta_store.dialect.times import format_time, parse_time
from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import PastPoint, ViewEngine
from delta_store.settling.sql_views import query
from tests import plain_views
from tests.sql_answers import engine_on
from tests.tools import sharing_python
from tests.wire import Reply, Wire

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ANSWER_HEADERS = {"Stream", "Subject", "Sequence", "Time-Stamp", "Num-Pending", "Last-Sequence", "UpTo-Sequence"}
_MANY = 1000
_SHARING = """
import json, sys
import delta_sharing

profile, found = sys.argv[1], []
for stream, point in json.loads(sys.argv[2]):
    frame = delta_sharing.load_as_pandas(f"{profile}#silt.streams.{stream}", **point)
    rows = zip(frame["subject"], frame["seq"].tolist(), frame["time"], frame["data"], frame["headers"])
    found.append([
        [subject, seq, time.value // 1000, data.hex(), [[name, list(values)] for name, values in headers or ()]]
        for subject, seq, time, data, headers in rows
    ])
print(json.dumps(found))
"""


class Message(NamedTuple):
    """A message as all surfaces have it."""

    subject: str
    seq: int
    time_us: int
    data: bytes
    headers: dict[str, list[str]]


class Asked(NamedTuple):
    """A question: a stream's messages right after a sequence, before a time (µs since 1970), or now."""

    stream: str
    seq: int | None = None
    time_us: int | None = None
    last: bool = False
    """Whether only the last message of each subject is asked for."""

    @property
    def is_now(self) -> bool:
        """Whether no point of the past is asked for."""
        return self.seq is None and self.time_us is None

    @property
    def time(self) -> str | None:
        """The time as RFC 3339 has it."""
        return None if self.time_us is None else format_time(self.time_us * 1000)

    @property
    def point(self) -> str:
        """The point as users write it."""
        return self.time or str(self.seq)

    @property
    def relation(self) -> str:
        """What SQL selects from."""
        point = "" if self.is_now else f", '{self.point}'"
        if self.last:
            return f"multi_last('{self.stream}', '>'{point})"
        return f'"{self.stream}"' if self.is_now else f"as_of('{self.stream}'{point})"


Answers = dict[Asked, list[Message]]


def message_of(subject: str, seq: int, ts_ns: int, data: bytes, headers: bytes | None) -> Message:
    """Return the message of a row as it is stored."""
    return Message(subject, seq, ts_ns // 1000, data, _fields(Reply(headers or b"", b"").headers))


def last_of_each(messages: Iterable[Message]) -> list[Message]:
    """Return the last message of each subject, by sequence."""
    found = {one.subject: one for one in sorted(messages, key=lambda one: one.seq)}
    return sorted(found.values(), key=lambda one: one.seq)


def by_nats(url: str, asked: Sequence[Asked]) -> Answers:
    """Ask Direct Get: a batch, or ``multi_last``."""

    async def main() -> Answers:
        async with Wire.open(url) as wire:
            return {one: [message async for message in _direct(wire, one)] for one in asked}

    return asyncio.run(main())


async def _direct(wire: Wire, asked: Asked) -> AsyncIterator[Message]:
    body: dict[str, Any] = {"seq": 1, "batch": _MANY}
    if asked.last:
        body = {"multi_last": [">"], "up_to_seq": asked.seq, "up_to_time": asked.time}
        body = {name: value for name, value in body.items() if value is not None}
    inbox = wire.send(f"$JS.API.DIRECT.GET.{asked.stream}", json.dumps(body).encode())
    while not (reply := await wire.receive(inbox)) or not reply.status:
        assert reply is not None, asked
        said = [(name, value) for name, value in reply.headers if name.removeprefix("Nats-") not in _ANSWER_HEADERS]
        subject, seq, time = (reply.get(f"Nats-{name}") or "" for name in ("Subject", "Sequence", "Time-Stamp"))
        yield Message(subject, int(seq), parse_time(time) // 1000, reply.payload, _fields(said))
    assert reply.status.partition(" ")[0] in ("204", "404"), (asked, reply.status)


def by_rest(url: str, asked: Sequence[Asked]) -> Answers:
    """Ask for a range, or for ``multi-last``."""
    found: Answers = {}
    with httpx.Client(base_url=f"{url}/v1/streams", timeout=60) as http:
        for one in asked:
            given = {"subject": ">", "up_to_seq": one.seq, "up_to_time": one.time} if one.last else {"limit": _MANY}
            place = f"/{one.stream}/{'multi-last' if one.last else 'messages'}.ndjson"
            said = http.get(place, params={name: value for name, value in given.items() if value is not None})
            assert said.status_code == 200, (one, said.text)
            found[one] = [_of_json(json.loads(line)) for line in said.text.splitlines()]
    return found


def _of_json(body: Mapping[str, Any]) -> Message:
    time_us = parse_time(body["time"]) // 1000
    return Message(body["subject"], body["seq"], time_us, b64decode(body["data"]), body["headers"])


def by_duckdb(data: Path, asked: Sequence[Asked]) -> Answers:
    """Ask the engine of ``silt sql``."""
    engine, found = engine_on(data), Answers()
    for one in asked:
        with engine.query(f"SELECT subject, seq, time, data, headers FROM {one.relation}") as answer:
            schema = answer.run()
            found[one] = list(_of_table(pa.Table.from_batches(answer.batches(), schema)))
    return found


def by_spark_views(spark: SparkSession, data: Path, asked: Sequence[Asked]) -> Answers:
    """Ask ``silt sql --engine spark``, all in one statement."""
    columns = "subject, seq, time, data, headers"
    parts = [f"SELECT {place} AS place, {columns} FROM {one.relation}" for place, one in enumerate(asked)]
    table = query(spark, data, " UNION ALL ".join(parts)).toArrow()
    return {one: list(_of_table(_part(table, "place", place))) for place, one in enumerate(asked)}


def by_spark_source(spark: SparkSession, data: Path, asked: Sequence[Asked]) -> Answers:
    """Read by the format ``silt``; a time, and now, of all streams at once."""
    register(spark)
    found: Answers = {}
    groups: dict[object, list[Asked]] = {}
    for one in asked:
        groups.setdefault(one if one.seq is not None else one.time_us, []).append(one)
    for group in groups.values():
        options = {"stream": " ".join(one.stream for one in group), "includeHeaders": "true"}
        options |= {} if group[0].is_now else {"asOf": group[0].point}
        table = spark.read.format("silt").options(**options).load(str(data)).toArrow()
        found |= {one: list(_of_table(_part(table, "stream", one.stream))) for one in group}
    return found


def by_plain_views(
    data: Path, asked: Sequence[Asked], *, spark: SparkSession | None = None, kind: str = ""
) -> dict[str, Answers]:
    """Make the views over the raw tables that ``silt views`` prints, in each engine; in Spark where there is one."""
    found: dict[str, Answers] = {}
    heads = read_heads(str(data / "messages"))
    for one in asked:
        before_ns = None if one.time_us is None else one.time_us * 1000
        head = head_rows.holding(heads, one.stream, seq=one.seq, before_ns=before_ns)
        assert head is not None, one
        point = None if one.is_now else PastPoint(head, one.seq, before_ns)
        for name, table in _plain_tables(data, one.stream, point, spark).items():
            found.setdefault(f"plain view in {name} {kind}", {})[one] = list(_of_table(table))
    return found


def _plain_tables(data: Path, stream: str, point: PastPoint | None, spark: SparkSession | None) -> dict[str, pa.Table]:
    """Return a stream's state by engine."""
    if spark is not None:
        live = view_text.live_view(ViewEngine.SPARK, str(data), name=stream, stream=stream)
        text = live if point is None else view_text.past_view(ViewEngine.SPARK, str(data), point)
        return {"Spark": _spark_view(spark, text, stream)}
    return plain_views.live_tables(data, stream) if point is None else plain_views.past_tables(data, point)


def _spark_view(spark: SparkSession, text: str, view: str) -> pa.Table:
    for statement in filter(None, map(str.strip, text.split(";"))):
        spark.sql(statement)
    table = spark.table(f"`{view}`").toArrow()
    spark.catalog.dropTempView(view)
    return table


def by_sharing(url: str, folder: Path, asked: Sequence[Asked]) -> Answers:
    """Ask Delta Sharing by the client of PyPI."""
    profile = folder / "silt.share"
    fields = {"shareCredentialsVersion": 1, "endpoint": f"{url}/delta-sharing", "bearerToken": "none"}
    profile.write_text(json.dumps(fields))
    points = [(one.stream, {"version": one.seq, "timestamp": one.time}) for one in asked]
    given = [(name, {key: value for key, value in point.items() if value is not None}) for name, point in points]
    ran = subprocess.run(
        [str(sharing_python()), "-c", _SHARING, str(profile), json.dumps(given)],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return {
        one: [
            Message(subject, seq, time_us, bytes.fromhex(data), dict(headers))
            for subject, seq, time_us, data, headers in rows
        ]
        for one, rows in zip(asked, json.loads(ran.stdout.splitlines()[-1]), strict=True)
    }


def _part(table: pa.Table, column: str, value: object) -> pa.Table:
    return table.filter(pa.compute.equal(table[column], pa.scalar(value, table.schema.field(column).type)))


def _of_table(table: pa.Table) -> Iterator[Message]:
    for row in table.select(["subject", "seq", "time", "data", "headers"]).to_pylist():
        headers = row["headers"]
        fields = _fields(Reply(headers, b"").headers) if isinstance(headers, bytes) else dict(headers or ())
        time_us = (row["time"].astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        yield Message(row["subject"], row["seq"], time_us, row["data"], fields)


def _fields(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
