"""The texts of ``silt views`` on what Spark settled: three engines show what JetStream and Direct Get show."""

import random
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from conf.clock import SystemClock
from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_before import SettledBefore
from delta_store.settling.upkeep_pace import Schedule
from tests import plain_views
from tests.groups import SteppedClock
from tests.spark.store import SECOND, Store

NAMES = ("LOG", "KV", "ANEW")


def _spark_rows(spark: SparkSession, text: str, view: str) -> dict[str, set[int]]:
    for statement in filter(None, map(str.strip, text.split(";"))):
        spark.sql(statement)
    found: dict[str, set[int]] = {}
    for stream, seq in spark.sql(f"SELECT stream, seq FROM `{view}`").collect():
        found.setdefault(stream, set()).add(seq)
    spark.catalog.dropTempView(view)
    return found


def _truth(here: Store) -> dict[str, set[int]]:
    return {name: set(here.live(name)) for name in NAMES if here.live(name)}


def _fill(here: Store) -> dict[str, dict[int, str]]:
    """Publish, delete, purge, make a stream anew; settle and clean up amid it. Returns subjects by stream, sequence."""
    dice = random.Random(7)
    subjects: dict[str, dict[int, str]] = {name: {} for name in NAMES}
    here.create("LOG", max_msgs=30)
    here.create("KV", max_msgs_per_subject=1)
    here.create("ANEW")
    for number in range(90):
        for name in NAMES:
            seq = here.publish(name, f"k{dice.randrange(12)}", b"%d" % number)
            subjects[name][seq] = here.rows.subject[-1]
        here.tick()
        if number == 20:
            here.catalog.remove("KV", here.live("KV")[3], now_ns=here.tick(), rows=here.rows)
        if number == 40:
            here.catalog.purge("LOG", subject="LOG.k3", now_ns=here.tick(), rows=here.rows)
        if number == 50:
            here.catalog.delete("ANEW", now_ns=here.tick(), rows=here.rows)
            here.create("ANEW")
        if number == 59:
            here.settle()
            assert plain_views.live(here.data) == 2 * [_truth(here)]
            here.maintenance.run_due()
            assert plain_views.live(here.data) == 2 * [_truth(here)]
    here.settle()
    return subjects


@pytest.mark.timeout(600)
def test_three_engines_show_what_the_streams_show(store: Callable[..., Store]) -> None:
    """Limits, evictions, deletes, purges, a stream made anew; before and after cleanup; now, and at a past point."""
    here = store()
    subjects = _fill(here)
    by_spark = _spark_rows(here.spark, view_text.live_view(ViewEngine.SPARK, str(here.data)), LIVE_VIEW)
    assert [by_spark, *plain_views.live(here.data)] == 3 * [_truth(here)]
    past = PointInTime(SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal")))
    heads = read_heads(str(here.data / "messages"))
    assert len({row.from_seq for row in heads if row.stream == "KV"}) > 1
    for name, seq, before_ns in (("KV", 45, None), ("LOG", None, here.now_ns - 20 * SECOND)):
        head = head_rows.holding(heads, name, seq=seq, before_ns=before_ns)
        assert head is not None
        point = PastPoint(head, seq, before_ns)
        found = plain_views.past(here.data, point)
        if name == "KV":
            text = view_text.past_view(ViewEngine.SPARK, str(here.data), point)
            found.append(_spark_rows(here.spark, text, name)[name])
        expected = {one.seq for one in past.multi_last(name, [">"], up_to_seq=seq, up_to_ts_ns=before_ns).messages}
        for state in found:
            last = {subjects[name][seq]: seq for seq in sorted(state)}
            assert set(last.values()) == expected, point


def test_a_view_is_one_state_whatever_is_cleaned_up_meanwhile(store: Callable[..., Store]) -> None:
    """What ``heads`` told when it was pinned is in ``messages`` a minute later, batches and cleanups in between."""
    here = store()
    here.schedule = Schedule()
    here.start()
    clock = SteppedClock()
    here.sink.progress().before = SettledBefore(here.owner.storage, clock)
    here.create("KV", max_msgs_per_subject=1)
    here.create("LOG", max_msgs=5)

    def settle(number: int) -> None:
        for one in range(9):
            for name in ("KV", "LOG"):
                here.publish(name, f"k{one % 3}", b"%d" % number)
        here.catalog.remove("LOG", here.live("LOG")[1], now_ns=here.tick(), rows=here.rows)
        here.settle()

    def meanwhile(path: str) -> None:
        if path.endswith("/heads"):
            pinned_ms = SystemClock().now_ns() // 1_000_000
            settle(1)
            settle(2)
            clock.seconds += pinned_ms / 1e3 - clock.now_ns() / 1e9 + Schedule().grace_seconds
            with here.sink.lock:
                here.maintenance.delete_dead_rows(here.sink.progress())

    settle(0)
    for rest_reversed in (False, True):
        before = here.owner.snapshot.rows
        truth = {name: set(here.live(name)) for name in ("KV", "LOG")}
        text = view_text.live_view(ViewEngine.DUCKDB, str(here.data))
        found = plain_views.duckdb_table(text, LIVE_VIEW, pinned=meanwhile, rest_reversed=rest_reversed)
        assert plain_views.by_stream(found) == truth
        assert here.owner.snapshot.rows < before + 38
