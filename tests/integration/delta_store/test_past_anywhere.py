"""The past by NATS, REST and SQL, in a folder and in an object store, whatever settling and upkeep have done since."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

import httpx
import pytest

from api.responder.direct_responder import DirectResponder
from api.rest.app import create_app
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.settings import Settings
from delta_store.dialect.times import format_time
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from ingest.protocol.wire_protocol import WireMessage
from tests.direct_answers import Collected
from tests.pasts import Pasts, grown
from tests.s3 import BUCKET, s3_server, storage_options
from tests.sql_answers import engine_on, rows_of
from tests.tables import Tables

_POINTS: Final = 30
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE: Final = re.compile(rb"Nats-Subject: ([^\r]+)\r\nNats-Sequence: (\d+)\r\n(?:[^\r]+\r\n)+\r\nS/(\d+)\r\n")
Lasts = dict[str, int]
"""The last sequence of each subject."""


class Point(NamedTuple):
    """A sequence, inclusive, or else a time, exclusive."""

    seq: int = 0
    ts_ns: int = 0

    def truth(self, pasts: Pasts) -> Lasts:
        """What a replay gives."""
        return pasts.last(pasts.at(self.seq) if self.seq else pasts.before(self.ts_ns))

    @property
    def asked(self) -> dict[str, int | str]:
        """The same as NATS and REST take it."""
        return {"up_to_seq": self.seq} if self.seq else {"up_to_time": format_time(self.ts_ns)}

    @property
    def in_microseconds(self) -> "Point":
        """The point, or the time that SQL has for it."""
        return Point(self.seq, self.ts_ns // 1000 * 1000)

    @property
    def for_sql(self) -> int | datetime:
        """A parameter of a statement."""
        return self.seq or _EPOCH + timedelta(microseconds=self.ts_ns // 1000)


def chosen(pasts: Pasts, dice: random.Random) -> list[Point]:
    """Points of the newest incarnation, two thirds of them sequences."""
    seqs = [Point(seq=dice.randrange(1, pasts.history.seq)) for _ in range(_POINTS * 2 // 3)]
    return [*seqs, *(Point(ts_ns=dice.choice(pasts.history.rows).ts_ns) for _ in range(_POINTS // 3))]


async def by_nats(replica: Replica, points: Sequence[Point]) -> list[Lasts]:
    """What Direct Get answers; the payloads are those of the sequences."""
    sink = Collected()
    responder = DirectResponder(replica.reader, sink, concurrency=2, drain_seconds=5)
    replies = [b"m%d" % number for number in range(len(points))]
    bodies = [json.dumps({"multi_last": ["s.>"], **point.asked}).encode() for point in points]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(responder.run())
        responder.respond(
            [
                WireMessage(b"$JS.API.DIRECT.GET.S", reply, b"", body)
                for reply, body in zip(replies, bodies, strict=True)
            ]
        )
        await sink.complete(replies)
        running.cancel()
    found = [_MESSAGE.findall(sink.frames[reply]) for reply in replies]
    assert all(seq == said for answer in found for _, seq, said in answer)
    return [{subject.decode(): int(seq) for subject, seq, _ in answer} for answer in found]


async def by_rest(replica: Replica, points: Sequence[Point]) -> list[Lasts]:
    """What ``multi-last`` answers."""
    transport = httpx.ASGITransport(create_app(replica, Settings()))
    found = []
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for point in points:
            answer = await client.get("/v1/streams/S/multi-last", params={"subject": "s.>", **point.asked})
            assert answer.status_code == 200, (point, answer.text)
            assert all(one["text"] == f"S/{one['seq']}" for one in answer.json()["messages"])
            found.append({one["subject"]: one["seq"] for one in answer.json()["messages"]})
    return found


def by_sql(place: DataLocation, points: Sequence[Point]) -> list[Lasts]:
    """What one statement over all points answers, and the live messages at the first of them."""
    parts = [
        f"SELECT {at} AS at, subject, seq, text FROM multi_last('S', 's.>', ${at + 1})" for at in range(len(points))
    ]
    rows = rows_of(engine_on(place), " UNION ALL ".join(parts), *(point.for_sql for point in points))
    assert all(row["text"] == f"S/{row['seq']}" for row in rows)
    return [{row["subject"]: row["seq"] for row in rows if row["at"] == at} for at in range(len(points))]


def settle(tables: Tables) -> None:
    """Settle everything, and apply the limits."""
    tables.settle()
    tables.apply_limits()


def clean(tables: Tables) -> None:
    """Write checkpoints, delete what is behind them, and what no version within the horizon needs."""
    tables.journal.checkpoint()
    tables.journal.checkpoint()
    tables.journal.cleanup(min_age_seconds=0)
    tables.owner._upkeep._checkpoint_bytes = 0
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 1):
        tables.owner.upkeep()
    tables.owner.vacuum()


STEPS: Final[tuple[Callable[[Tables], None], ...]] = (settle, Tables.compact, Tables.truncate, clean)


@pytest.fixture(scope="module")
def bucket() -> Iterator[DataLocation]:
    """A bucket of an S3 server."""
    with s3_server() as server:
        yield DataLocation(f"s3://{BUCKET}", storage_options(server.url))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_every_surface_gives_the_true_past(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, seed: int
) -> None:
    """At 30 points, before and after settling, compaction, truncation, log cleanup and vacuum."""
    dice, after_each = random.Random(seed), seed > 1
    store = None
    if place == "bucket":
        bucket: DataLocation = request.getfixturevalue("bucket")
        store = DataLocation(bucket.table(f"past-{seed}"), bucket.options)
    pasts = grown(tmp_path, dice, store=store)
    tables, points = pasts.tables, chosen(pasts, dice)
    truth = [point.truth(pasts) for point in points]
    in_microseconds = [point.in_microseconds.truth(pasts) for point in points]

    async def compare() -> None:
        threads = ReadThreads(2, timeout_seconds=60)
        location = tables.location
        replica = Replica(location.uri, threads, clock=SystemClock(), storage_options=location.options)
        await replica.open()
        for step in (None, *STEPS):
            if step is not None:
                step(tables)
                await replica.refresh()
                if not after_each and step is not STEPS[-1]:
                    continue
            assert await by_nats(replica, points) == truth, step
            assert await by_rest(replica, points) == truth, step
            assert by_sql(location, points) == in_microseconds, step
        threads.close()

    asyncio.run(compare())
