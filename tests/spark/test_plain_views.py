"""The texts of ``silt views`` on what Spark settled: three engines show what JetStream and Direct Get show."""

import random
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from tests import plain_views
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
