"""Rows about consumers: the newest state of each counts, and the others burden nobody."""

import json
from collections.abc import Callable
from itertools import product

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from delta_store.entries.batch_layout import in_order, newest_of_consumers
from delta_store.index.matching import subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.settling import settle_debt
from delta_store.settling.sql_views import query
from delta_store.settling.upkeep_pace import Schedule
from delta_store.sql.report_relation import consumers_query
from delta_store.sql.spark_dialect import SparkDialect
from delta_store.stores.stores_open import open_stores
from delta_store.transforms.consumer_rows import dead_consumer_rows
from delta_store.values.records import Kind
from delta_store.values.schemas import JOURNAL_DDL
from delta_store.values.stream_head import Head
from tests.spark.store import Store
from tests.spark.test_transforms import journal_rows
from tests.tables import marks_of

MakeStore = Callable[..., Store]
CONFIG = b'{"config":{"durable_name":"%s"},"created_ns":1760000000000000000}'


def note(here: Store, stream: str, kind: Kind, name: str, data: bytes = b"") -> None:
    """What the engine does when a consumer changes."""
    state = here.catalog.streams[stream]
    state.record_consumer(kind, name=name, data=data, now_ns=here.tick(1000), rows=here.rows)


def work(here: Store, *, rounds: int) -> None:
    """Messages with consumers' states between them: a few consumers made, moved on, changed, deleted, made again."""
    for number in range(rounds):
        here.publish("A", f"s{number % 3}", b"%d" % number)
        for name in ("c1", "c2", "c3"):
            if name not in here.catalog.streams["A"].consumers:
                note(here, "A", Kind.CONSUMER, name, CONFIG % name.encode())
            if name != "c3" or number % 4:
                note(here, "A", Kind.CONSUMER_STATE, name, b"%s at %d" % (name.encode(), number) * 9)
        if number % 7 == 6:
            note(here, "A", Kind.CONSUMER_DELETE, "c3")
        if number % 11 == 10:
            note(here, "A", Kind.CONSUMER, "c2", CONFIG % b"changed")


def same_catalog(here: Store) -> None:
    """A gateway that starts from what is on disk gets the state that was left."""
    settled, journal = SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal"))
    rebuilt = open_stores(settled, journal).catalog
    assert marks_of(rebuilt) == marks_of(here.catalog)
    for name, state in here.catalog.streams.items():
        assert rebuilt.streams[name].consumers == state.consumers
        assert subjects_matching(rebuilt.streams[name].index) == subjects_matching(state.index)
        assert rebuilt.streams[name].index.bytes == state.index.bytes


def test_one_state_of_each_consumer_is_kept(store: MakeStore) -> None:
    """Of thousands of states in a batch one a consumer is settled, and of many batches one is left in the end."""
    here = store()
    here.create("A", max_msgs=50)
    here.create("B")
    work(here, rounds=353)
    note(here, "B", Kind.CONSUMER, "gone", CONFIG % b"gone")
    here.settle()
    states = [row["subject"] for row in here.settled("A", "kind", "subject") if row["kind"] == "consumer_state"]
    assert sorted(states) == ["c1", "c2", "c3"]
    assert here.owner.note.watermarks == marks_of(here.catalog)
    same_catalog(here)
    for _ in range(3):
        work(here, rounds=15)
        here.settle()
        same_catalog(here)
    here.catalog.delete("B", now_ns=here.tick(), rows=here.rows)
    here.settle(fresh=True)
    here.maintenance.run_due()
    left = here.consumer_rows().select("stream", "kind", "subject").collect()
    kinds = [row["kind"] for row in left]
    assert {row["stream"] for row in left} == {"A"}
    assert kinds.count("consumer_state") <= 3
    assert kinds.count("consumer") <= 4
    assert kinds.count("consumer_delete") == 0
    here.truncate()
    same_catalog(here)
    work(here, rounds=3)
    here.commit()
    same_catalog(here)


def test_states_do_not_wait_for_the_round(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """When superseded rows have become many they go before the next round, and only their own files are rewritten."""
    monkeypatch.setattr(settle_debt, "CONSUMER_ROWS_MIN", 4)
    here = store()
    here.create("A")
    for _ in range(3):
        work(here, rounds=2)
        here.settle()
    here.maintenance._pace.schedule = Schedule(compact_interval_seconds=7200)
    before = set(DeltaTable(str(here.data / "messages")).file_uris())
    here.maintenance.run_due()
    gone = before - set(DeltaTable(str(here.data / "messages")).file_uris())
    assert gone
    assert all("consumers" in uri for uri in gone)
    assert here.consumer_rows().where("kind = 'consumer_state'").count() == 3
    assert not here.sink.progress().debt.consumers_pay
    same_catalog(here)


def test_views_and_the_past_pass_over_consumers(store: MakeStore) -> None:
    """SQL, past points and times are those of a stream without consumers, and their files are not opened for them."""
    here = store()
    here.create("A", max_msgs=30)
    work(here, rounds=20)
    here.settle()
    work(here, rounds=20)
    here.commit()
    found = query(here.spark, here.data, "SELECT seq, text FROM A ORDER BY seq").collect()
    assert [row.seq for row in found] == here.live("A")
    [report] = query(here.spark, here.data, "SELECT * FROM silt_streams").collect()
    assert (report.messages, report.last_seq) == (30, 40)
    shown = query(here.spark, here.data, "SELECT * FROM silt_consumers ORDER BY name").collect()
    names = sorted(here.catalog.streams["A"].consumers)
    assert [(row.stream, row.name) for row in shown] == [("A", name) for name in names]
    assert json.loads(shown[0].config) == {"durable_name": "c1"}
    assert shown[0].created.year == 2025
    settled, journal = SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal"))
    settled.refresh()
    for path, file in settled.snapshot.files.items():
        if file.consumers_only:
            (here.data / "messages" / path).unlink()
    past = PointInTime(settled, journal)
    assert [one.seq for one in past.multi_last("A", ["A.s0", "A.s1"], up_to_seq=11).messages] == [10, 11]
    assert [one.seq for one in past.multi_last("A", [">"]).messages] == [38, 39, 40]
    events = journal.events_of(journal.refresh(), "A")
    assert {kind for table in events for kind in table["kind"].to_pylist()} <= {"stream", "remove"}


def test_what_counts_of_a_consumer(spark: SparkSession) -> None:
    """Replay of what is kept ends where replay of all rows does, for each history of one consumer."""
    kinds = {"c": Kind.CONSUMER, "s": Kind.CONSUMER_STATE, "d": Kind.CONSUMER_DELETE}
    histories = ["csss", "cscs", "csc", "csdc", "cd", "csd", "csdcs", "ccc", "cscsc", "s", "c", "dcs", "cdcd", "csdcsc"]
    rows = journal_rows(
        spark,
        *(
            {"event_no": place, "kind": kinds[letter].value, "subject": story, "data": b"%d" % place}
            for story in histories
            for place in [histories.index(story) * 100 + at for at in range(len(story))]
            for letter in [story[place % 100]]
        ),
    )
    kept = newest_of_consumers(in_order(rows.toArrow())).to_pylist()
    counts = {story: sorted(row["event_no"] % 100 for row in kept if row["subject"] == story) for story in histories}
    for story in histories:
        assert _ends(story, counts[story]) == _ends(story, range(len(story)))
        assert len(counts[story]) <= 4
    assert counts["csss"] == [0, 3]
    assert counts["cscsc"] == [2, 3, 4]
    events = journal_rows(spark, {"kind": "stream", "seq": 0, "subject": "", "data": b"{}"})
    dead = {row.event_no for row in rows.transform(dead_consumer_rows(events)).collect()}
    assert {row["event_no"] for row in kept if row["kind"] != Kind.CONSUMER_DELETE} == {
        row.event_no for row in rows.collect() if row.event_no not in dead
    }
    assert len(dead) == rows.count() - len(kept) + sum("d" in story for story in histories)
    events = journal_rows(spark, {"kind": "stream_delete", "seq": 0, "subject": ""})
    assert rows.transform(dead_consumer_rows(events)).count() == rows.count()
    rows.createOrReplaceTempView("consumer_rows")
    head = Head("A", 1, 0, "{}")
    shown = spark.sql(consumers_query([head], ["consumer_rows"], SparkDialect())).select("name")
    living = {row.name for row in shown.collect()}
    assert living == {story for story in histories if _ends(story, range(len(story)))[0]}


def test_what_counts_of_a_consumer_in_two_batches(spark: SparkSession) -> None:
    """All histories of up to four rows, settled in two batches and cleaned, end where replay of all rows does."""
    kinds = {"c": Kind.CONSUMER, "s": Kind.CONSUMER_STATE, "d": Kind.CONSUMER_DELETE}
    stories = ["".join(letters) for length in range(1, 5) for letters in product("csd", repeat=length)]
    cases = [(story, split) for story in stories for split in range(len(story) + 1)]
    rows = journal_rows(
        spark,
        *(
            {
                "event_no": 10 * number + at,
                "kind": kinds[story[at]].value,
                "subject": f"{story}|{split}",
                "data": b"%d" % (at >= split),
            }
            for number, (story, split) in enumerate(cases)
            for at in range(len(story))
        ),
    )
    late = sf.col("data").cast("string") == "1"
    batches = [newest_of_consumers(in_order(rows.where(part).toArrow())) for part in (~late, late)]
    settled = pa.concat_tables(batches)
    table = spark.createDataFrame(settled, JOURNAL_DDL).cache()
    events = journal_rows(spark, {"kind": "stream", "seq": 0, "subject": "", "data": b"{}"})
    dead = {row.event_no for row in table.transform(dead_consumer_rows(events)).collect()}
    cleaned = settled.filter(pa.array(event_no not in dead for event_no in settled["event_no"].to_pylist()))
    for kept in (newest_of_consumers(in_order(settled)), cleaned):
        left: dict[str, list[int]] = {f"{story}|{split}": [] for story, split in cases}
        for subject, event_no in zip(*(kept[name].to_pylist() for name in ("subject", "event_no")), strict=True):
            left[subject].append(event_no % 10)
        for story, split in cases:
            places = sorted(left[f"{story}|{split}"])
            assert _ends(story, places) == _ends(story, range(len(story))), (story, split, places)


def _ends(story: str, places: object) -> tuple[int, int]:
    """Places of the configuration and the state that replay ends up with, from 1; 0 for none."""
    config = state = 0
    for place in places:
        if story[place] == "c":
            config = place + 1
        elif story[place] == "d":
            config = state = 0
        elif config:
            state = place + 1
    return config, state
