"""Cuts by NATS, REST, SQL and plans of long reads, in a folder and in a bucket, whatever upkeep has done since."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest
from typer.testing import CliRunner

from api.cli.app import app
from api.rest.app import create_app
from api.spark.read_options import read_options
from api.spark.reading import SiltBatchReader
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.settings import Settings
from delta_store.heads.head_tables import HeadTables
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_scan import scan
from delta_store.reading.read_plan import WantedLasts
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.stores.replica import Replica
from delta_store.values.as_of import AsOf
from delta_store.values.cut_record import CUTS, cut_data
from delta_store.values.records import Kind, Position
from tests.integration.delta_store.test_past_anywhere import STEPS, Lasts, by_nats
from tests.plain_views import polars_table
from tests.s3 import BUCKET, s3_server, storage_options
from tests.sql_answers import engine_on, rows_of
from tests.tables import History, Tables, live_after, live_sequences

_ROUNDS: Final = 8


class Taken(NamedTuple):
    """A cut, and the number of rows that each stream had before it."""

    name: str
    rows: dict[str, int]

    @property
    def asked(self) -> dict[str, int | str]:
        """The point as Direct Get takes it."""
        return {"silt_as_of": f"cut:{self.name}"}


class CutWorld:
    """Two streams whose clocks have nothing to do with each other, and the cuts over both."""

    def __init__(self, tables: Tables, dice: random.Random, *, settled: bool = True) -> None:
        """Live through some rounds; without ``settled`` all stays in the journal."""
        self.tables, self.cuts = tables, list[Taken]()
        self.streams = {
            name: History(name, per_subject=dice.choice((-1, 1, 2)), max_msgs=dice.choice((-1, 12)))
            for name in ("S", "OTHER")
        }
        self._points = History(CUTS)
        tables.commit([*(one.create() for one in self.streams.values()), self._points.create(subjects=())])
        for number in range(_ROUNDS):
            for _ in range(3):
                tables.commit([one.step(dice) for one in self.streams.values() for _ in range(dice.randrange(1, 4))])
            self.cuts.append(self.cut(f"c{number}"))
            self._at_the_cut(dice)
            if settled and dice.random() < 0.6:
                tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 6)])
            for chance, work in ((0.3, tables.apply_limits), (0.3, tables.truncate), (0.2, tables.compact)):
                if dice.random() < chance and tables.marks:
                    work()

    def cut(self, name: str) -> Taken:
        """Take a cut."""
        places = {one.stream: Position(one.stream_id, one.seq, one.event_no) for one in self.streams.values()}
        self.tables.commit([self._points.publish(name, cut_data(places))])
        return Taken(name, {one.stream: len(one.rows) for one in self.streams.values()})

    def _at_the_cut(self, dice: random.Random) -> None:
        """Remove messages before any new one is stored."""
        for one in self.streams.values():
            if one.live and dice.random() < 0.5:
                self.tables.commit([one.remove([dice.choice(list(one.live))], "delete", erase=dice.random() < 0.3)])

    def truth(self, stream: str, cut: Taken) -> list[int]:
        """The sequences that were live at a cut and have not been erased."""
        return sorted(live_after(self.streams[stream].rows, cut.rows[stream]))

    def lasts(self, stream: str, cut: Taken) -> Lasts:
        """The last of each subject among them."""
        subjects = {row.seq: row.subject for row in self.streams[stream].rows if row.kind == Kind.MESSAGE}
        return {subjects[seq]: seq for seq in self.truth(stream, cut)}


def by_sql(place: DataLocation, cuts: list[Taken]) -> dict[str, dict[str, list[int]]]:
    """The live sequences of both streams at each cut, in one statement."""
    parts = [
        f"SELECT '{cut.name}' AS cut, '{stream}' AS stream, seq FROM as_of('{stream}', 'cut:{cut.name}')"
        for cut in cuts
        for stream in ("S", "OTHER")
    ]
    found: dict[str, dict[str, list[int]]] = {cut.name: {"S": [], "OTHER": []} for cut in cuts}
    for row in rows_of(engine_on(place), " UNION ALL ".join(parts) + " ORDER BY seq"):
        found[row["cut"]][row["stream"]].append(row["seq"])
    return found


def by_plan(place: DataLocation, stream: str, cut: Taken) -> list[int]:
    """What branches, rewinds and Spark read."""
    plan = SlicePlanner.of(place).live(stream, MessageBounds(), AsOf(cut=cut.name))
    return sorted(
        seq for part in plan.parts for table in scan(place, part, ("seq",)) for seq in table["seq"].to_pylist()
    )


def by_spark_source(place: DataLocation, stream: str, cut: Taken, *, live: bool) -> list[int]:
    """What the format silt reads; no JVM has a part in it."""
    given = {
        "path": place.uri,
        "stream": stream,
        "asOf": f"cut:{cut.name}",
        "live": str(live),
        "failOnDataLoss": "false",
    }
    reader = SiltBatchReader(read_options(given, streaming=False, now_ns=0), ("seq",))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(seq for batch in batches for seq in batch.column(0).to_pylist())


def test_the_format_of_spark_takes_cuts(tmp_path: Path) -> None:
    """What was live then, or all that came until then and is still there, however late anything was erased."""
    world = CutWorld(Tables(tmp_path), random.Random(7))
    for cut in world.cuts[::3]:
        for stream, history in world.streams.items():
            seqs = by_spark_source(world.tables.location, stream, cut, live=True)
            assert seqs == world.truth(stream, cut)
            log = by_spark_source(world.tables.location, stream, cut, live=False)
            last = history.rows[cut.rows[stream] - 1].seq
            assert set(seqs) & live_sequences(history.rows) <= set(log) <= set(range(1, last + 1)), (stream, cut)


def test_views_for_other_engines_take_cuts(tmp_path: Path) -> None:
    """Both streams at once; a cut that is not settled yet, or that nobody took, is none that they could show."""
    tables = Tables(tmp_path)
    world = CutWorld(tables, random.Random(3), settled=False)
    tables.settle(tables.rows[:-1])
    heads = HeadTables.open(tables.owner, clock=SystemClock())
    heads.follow()
    for cut in world.cuts[:-1:3]:
        text, _ = views(tmp_path, f"cut:{cut.name}")
        for stream in world.streams:
            found = polars_table(text, f"streams[{stream!r}]")
            assert sorted(found["seq"].to_pylist()) == world.truth(stream, cut), (stream, cut)
    assert "there is no cut 'none'" in views(tmp_path, "cut:none")[1]
    tables.commit([one.publish("s.1") for one in world.streams.values()])
    late = world.cut("late")
    assert "not settled up to cut 'late' yet" in views(tmp_path, f"cut:{late.name}")[1]


def views(data: Path, point: str) -> tuple[str, str]:
    """What ``silt views`` prints, and what it says."""
    done = CliRunner().invoke(app, ["views", "--data", str(data), "--engine", "polars", "--as-of", point])
    return done.stdout, done.stderr


async def by_rest(replica: Replica, stream: str, cut: Taken) -> int:
    """The number of messages."""
    transport = httpx.ASGITransport(create_app(replica, Settings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(f"/v1/streams/{stream}", params={"as_of": f"cut:{cut.name}"})
        unknown = await client.get(f"/v1/streams/{stream}", params={"as_of": "cut:none"})
    assert (unknown.status_code, unknown.json()["err_code"]) == (404, 20102)
    return int(answer.json()["state"]["messages"])


async def together(replica: Replica, point: str | None, page: int) -> dict[str, Lasts]:
    """The last of each subject in both streams, page by page."""
    found: dict[str, Lasts] = {"OTHER": {}, "S": {}}
    place, more = ("", 0), True
    while more:
        wanted = WantedLasts((("OTHER", ("s.>",)), ("S", (">",))), place, page, 1 << 20)
        messages, more = await replica.reader.lasts(wanted, point)
        assert len(messages) == page or not more
        for stream, one in messages:
            place = stream, one.seq
            found[stream][one.subject] = one.seq
            assert one.data == f"{stream}/{one.seq}".encode()
    return found


@pytest.fixture(scope="module")
def bucket() -> Iterator[DataLocation]:
    """A bucket of an S3 server."""
    with s3_server() as server:
        yield DataLocation(f"s3://{BUCKET}", storage_options(server.url))


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_every_surface_reads_all_streams_at_a_cut(request: pytest.FixtureRequest, tmp_path: Path, place: str) -> None:
    """Before and after settling, compaction, truncation, log cleanup and vacuum."""
    dice = random.Random(request.node.name)
    store = None
    if place == "bucket":
        bucket: DataLocation = request.getfixturevalue("bucket")
        store = DataLocation(bucket.table("cuts"), bucket.options)
    world = CutWorld(Tables(tmp_path, store=store), dice)
    location = world.tables.location

    async def compare() -> None:
        threads = ReadThreads(2, timeout_seconds=60)
        replica = Replica(location.uri, threads, clock=SystemClock(), storage_options=location.options)
        await replica.open()
        for step in (None, *STEPS):
            if step is not None:
                step(world.tables)
                await replica.refresh()
                if place == "bucket" and step is not STEPS[-1]:
                    continue
            truth = {cut.name: {stream: world.truth(stream, cut) for stream in world.streams} for cut in world.cuts}
            assert by_sql(location, world.cuts) == truth, step
            assert await by_nats(replica, world.cuts) == [world.lasts("S", cut) for cut in world.cuts], step
            now = Taken("now", {name: len(one.rows) for name, one in world.streams.items()})
            assert await together(replica, None, 1_000) == {one: world.lasts(one, now) for one in world.streams}, step
            cut = dice.choice(world.cuts)
            found = await together(replica, f"cut:{cut.name}", dice.choice((1, 3, 1_000)))
            assert found == {one: world.lasts(one, cut) for one in world.streams}, (step, cut)
            for stream in world.streams:
                assert by_plan(location, stream, cut) == truth[cut.name][stream], (step, cut)
                assert await by_rest(replica, stream, cut) == len(truth[cut.name][stream]), (step, cut)
        threads.close()

    asyncio.run(compare())
