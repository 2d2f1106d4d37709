"""The texts of ``silt views`` on what Spark settled: three engines show what JetStream and Direct Get show."""

import random
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from tests import plain_views
from tests.spark.store import Store

NAMES = ("LOG", "KV", "ANEW")


def _spark_rows(spark: SparkSession, text: str, view: str) -> dict[str, set[int]]:
    for statement in filter(None, map(str.strip, text.split(";"))):
        spark.sql(statement)
    found: dict[str, set[int]] = {}
    for stream, seq in spark.sql(f"SELECT stream, seq FROM `{view}`").collect():
        found.setdefault(stream, set()).add(seq)
    spark.catalog.dropTempView(view)
    return found


def _check_live(here: Store) -> None:
    truth = {name: set(here.live(name)) for name in NAMES if here.live(name)}
    by_spark = _spark_rows(here.spark, view_text.live_view(ViewEngine.SPARK, str(here.data)), LIVE_VIEW)
    assert [by_spark, *plain_views.live(here.data)] == 3 * [truth]


def _check_past(here: Store, past: PointInTime, point: PastPoint, subjects: Mapping[int, str]) -> None:
    """Check the last message of each subject at a point against Direct Get's reader."""
    stream = point.head.stream
    asked = {"up_to_seq": point.seq} if point.seq is not None else {"up_to_ts_ns": point.before_ns}
    expected = {one.seq for one in past.multi_last(stream, [">"], **asked).messages}
    by_spark = _spark_rows(here.spark, view_text.past_view(ViewEngine.SPARK, str(here.data), point), stream)
    for state in (by_spark.get(stream, set()), *plain_views.past(here.data, point)):
        last = {subjects[seq]: seq for seq in sorted(state)}
        assert set(last.values()) == expected, point


def test_three_engines_show_what_the_streams_show(store: Callable[..., Store]) -> None:
    """Limits, evictions, deletes, purges, a stream made anew; before and after cleanup; now, and at past points."""
    here, dice = store(), random.Random(7)
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
            _check_live(here)
            here.maintenance.run_due()
    here.settle()
    _check_live(here)
    past = PointInTime(SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal")))
    heads = read_heads(str(here.data / "messages"))
    assert len({row.from_seq for row in heads if row.stream == "KV"}) > 1
    for name, seq, before_ns in (("KV", 45, None), ("LOG", None, here.now_ns - 20 * 10**9)):
        head = head_rows.holding(heads, name, seq=seq, before_ns=before_ns)
        assert head is not None
        _check_past(here, past, PastPoint(head, seq, before_ns), subjects[name])
