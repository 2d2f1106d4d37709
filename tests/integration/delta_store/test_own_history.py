"""The past of streams that say themselves how long it is kept: the rule, what upkeep leaves, what an error names."""

import random
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from deltalake import DeltaTable

from conf.data_location import DataLocation
from conf.limits import FIRST_SEQ_MAX
from delta_store.config.stream_parts import StreamSource
from delta_store.reading.journal_tail import JournalTail, open_tables
from delta_store.reading.kept_points import oldest_point
from delta_store.reading.past_streams import PastStreams
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.values.as_of import parse_as_of
from delta_store.values.read_errors import PastHorizon
from delta_store.values.records import Kind, Row
from tests.clocks import FixedClock
from tests.s3 import BUCKET, s3_server, storage_options
from tests.sql_answers import engine_on, rows_of
from tests.tables import START_NS, History, Tables, live_before, live_sequences


class Asked(NamedTuple):
    """A point: a sequence, inclusive, or else a time, exclusive."""

    seq: int = 0
    ts_ns: int = 0

    def live(self, rows: list[Row]) -> set[int]:
        """What a replay gives."""
        return live_sequences(rows, self.seq) if self.seq else live_before(rows, self.ts_ns)

    def ended_before(self, rows: list[Row], ts_ns: int) -> bool:
        """Whether its state was no longer the present one at a time."""
        changes = [row for row in rows if row.kind in (Kind.MESSAGE, Kind.REMOVE) and row.ts_ns < ts_ns]
        if not self.seq:
            return any(row.ts_ns >= self.ts_ns for row in changes)
        return any(row.seq > self.seq or (row.seq == self.seq and row.kind == Kind.REMOVE) for row in changes)

    def read(self, past: PointInTime) -> list[int]:
        """The last message of each subject."""
        asked: dict[str, Any] = {"up_to_seq": self.seq} if self.seq else {"up_to_ts_ns": self.ts_ns}
        return [one.seq for one in past.multi_last("S", ["s.>"], **asked).messages]


def reader(tables: Tables, now_ns: int) -> PointInTime:
    """A reader of the folder at a time."""
    settled = SettledTable(str(tables.data / "messages"))
    return PointInTime(settled, JournalTail(str(tables.data / "journal")), clock=FixedClock(now_ns))


def lived(tables: Tables, seed: int, history: str) -> History:
    """A stream with a history of its own, in many commits, settled in many steps, a tail left over."""
    dice, stream = random.Random(seed), History(per_subject=2)
    tables.commit([stream.create(metadata={"silt.history": history})])
    for _ in range(6):
        tables.commit([stream.step(dice) for _ in range(dice.randrange(1, 9))])
        if dice.random() < 0.7:
            tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 4)])
        if dice.random() < 0.5 and tables.marks:
            tables.apply_limits()
    return stream


@pytest.mark.parametrize("seed", range(2))
def test_a_state_is_kept_for_so_long_after_it_was_the_present(tmp_path: Path, seed: int) -> None:
    """Every point is answered truly, or refused as the rule says, settled or not; the oldest that is named is right."""
    tables = Tables(tmp_path)
    rows = lived(tables, seed, "150ns").rows
    last = rows[-1].ts_ns
    seqs, times = [Asked(seq) for seq in range(1, rows[-1].seq + 1)], [Asked(ts_ns=row.ts_ns) for row in rows]
    for now_ns in (last - 100, last + 1):
        past, answered = reader(tables, now_ns), []
        for point in [*seqs, *random.Random(now_ns).sample(times, 6)]:
            if point.ended_before(rows, now_ns - 150):
                with pytest.raises(PastHorizon, match="the oldest that can be read is"):
                    point.read(past)
                continue
            live = point.live(rows)
            newest = {row.subject: row.seq for row in rows if row.seq in live and row.kind == Kind.MESSAGE}
            assert point.read(past) == sorted(newest.values()), (point, now_ns)
            answered += [point.seq] if point.seq else []
        oldest = past.with_view("S", partial(oldest_point, past))
        assert oldest.seq == min(answered, default=0)
        assert not Asked(ts_ns=oldest.from_ns).ended_before(rows, now_ns - 150)


def two_streams(tables: Tables, **histories: str) -> None:
    """Streams whose every message replaces the one before, each settled by a commit of its own, and cleaned up."""
    streams = [History(stream=name, per_subject=1) for name in ("S", "OTHER")]
    told = [{"silt.history": histories[one.stream]} if one.stream in histories else {} for one in streams]
    tables.commit([one.create(metadata=metadata) for one, metadata in zip(streams, told, strict=True)])
    for _ in range(4):
        tables.commit([one.publish("s.1") for one in streams])
        tables.settle()
        tables.apply_limits()


def cleaned(tables: Tables) -> None:
    """Write a checkpoint, delete what is behind it and what no horizon needs."""
    tables.owner._upkeep._checkpoint_bytes = 0
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 1):
        tables.owner.upkeep()
    tables.owner.vacuum()


@pytest.mark.parametrize(("default", "own", "kept"), [(0.0, "30d", {"S"}), (86_400.0, "0", {"OTHER"})])
def test_upkeep_keeps_what_each_stream_asks_for(tmp_path: Path, default: float, own: str, kept: set[str]) -> None:
    """Files of a stream go when its own horizon has passed, longer or shorter than the others'; the log stays long."""
    tables = Tables(tmp_path, horizon_seconds=default)
    two_streams(tables, S=own)
    tables.owner.horizons.learn("S", round(86_400e9 * 30) if own == "30d" else 0)
    cleaned(tables)
    for stream in ("S", "OTHER"):
        past = reader(tables, START_NS)  # before any own history has begun: what the files say
        if stream in kept:
            assert [one.seq for one in past.multi_last(stream, ["s.1"], up_to_seq=2).messages] == [2]
        else:
            with pytest.raises(PastHorizon, match="the oldest that can be read is sequence 4, or the time 2025-06-15T"):
                past.multi_last(stream, ["s.1"], up_to_seq=2)
    seconds = max(default, 30 * 86_400.0 if own == "30d" else 0)
    retention = DeltaTable(str(tmp_path / "messages")).metadata().configuration["delta.logRetentionDuration"]
    assert retention == f"interval {seconds:.0f} seconds"


def test_the_oldest_point_that_is_named_can_be_read(tmp_path: Path) -> None:
    """By its sequence and by its time, as users write them; the sequence before can't."""
    tables = Tables(tmp_path, horizon_seconds=0)
    two_streams(tables)
    tables.commit([row := History(stream="LATER").create()])
    tables.settle([*tables.rows[:-1], row])
    cleaned(tables)
    past = reader(tables, START_NS)
    oldest = past.with_view("S", partial(oldest_point, past))
    named = parse_as_of(oldest.time, now=datetime.now(UTC))
    assert Asked(seq=oldest.seq).read(past) == Asked(ts_ns=named.before_ns or 0).read(past) == [4]
    with pytest.raises(PastHorizon):
        Asked(seq=oldest.seq - 1).read(past)


def test_the_past_of_a_copy_may_begin_with_a_gap(tmp_path: Path) -> None:
    """Where the oldest version that is there settled no message, the sequence is named alone; it can be read."""
    tables, stream = Tables(tmp_path, horizon_seconds=0), History(per_subject=1)
    tables.commit([stream.create(mirror=StreamSource("O"), subjects=()), stream.publish("s.1"), stream.publish("s.1")])
    tables.settle()
    tables.apply_limits()
    stream.seq = 7
    tables.commit([stream.remove([], "skip", erase=False)])
    tables.settle()
    cleaned(tables)
    tables.commit([stream.publish("s.1")])
    tables.settle()
    past = reader(tables, START_NS)
    oldest = past.with_view("S", partial(oldest_point, past))
    assert (oldest.seq, Asked(seq=oldest.seq).read(past)) == (3, [2])
    with pytest.raises(PastHorizon, match=r"the oldest that can be read is sequence 3$"):
        Asked(seq=1).read(past)


def test_a_stream_that_begins_late_has_a_past(tmp_path: Path) -> None:
    """With the highest sequence that one may begin with, settled and not."""
    first, tables = FIRST_SEQ_MAX, Tables(tmp_path)
    stream = History(seq=first - 1, per_subject=1)
    tables.commit([stream.create(first_seq=first), *(stream.publish(f"s.{number % 2}") for number in range(4))])
    for _ in range(2):
        past = reader(tables, START_NS)
        found = [[one - first for one in Asked(seq=first + number).read(past)] for number in range(5)]
        assert found == [[0], [0, 1], [1, 2], [2, 3], [2, 3]]
        tables.settle()
        tables.apply_limits()


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_what_the_past_costs(tmp_path: Path, place: str) -> None:
    """The files that left the table and are there still, of this stream alone."""
    with ExitStack() as servers:
        url = servers.enter_context(s3_server()).url if place == "bucket" else ""
        store = DataLocation(f"s3://{BUCKET}/past", storage_options(url)) if url else None
        tables = Tables(tmp_path, store=store, horizon_seconds=0)
        two_streams(tables, S="1000d")
        tables.owner.horizons.learn("S", 86_400 * 10**9)
        past = PastStreams(PointInTime(*open_tables(tables.location)))
        before = [past.history(name) for name in ("S", "OTHER")]
        cleaned(tables)
        after = [past.history(name) for name in ("S", "OTHER")]
    assert [told.own_ns for told in after] == [1000 * 86_400 * 10**9, None]
    assert before[0] == after[0]
    assert (before[1].held_files, after[1].held_files, after[1].held_bytes) == (before[0].held_files, 0, 0)
    assert after[0].held_bytes > after[0].held_files > 0


def test_sql_keeps_the_rule_and_names_the_oldest_point(tmp_path: Path) -> None:
    """A stream without a past shows only what stands now; other points are refused like everywhere."""
    tables = Tables(tmp_path)
    two_streams(tables, S="0")
    engine = engine_on(tables.location)
    assert [row["seq"] for row in rows_of(engine, "SELECT seq FROM as_of('S', 4)")] == [4]
    assert [row["seq"] for row in rows_of(engine, "SELECT seq FROM as_of('OTHER', 2)")] == [2]
    for statement in ("as_of('S', 2)", "multi_last('S', 's.>', 2)", "diff('S', 2, 4)"):
        with pytest.raises(PastHorizon, match="the oldest that can be read is sequence 4, or the time 2"):
            rows_of(engine, f"SELECT * FROM {statement}")
