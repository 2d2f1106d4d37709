"""Settling mirrors, whose sequences have gaps, and streams with sources, which record positions again and again."""

from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import SparkSession

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import StreamSource
from delta_store.index.matching import subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.settling.sql_views import query
from delta_store.stores.stores_open import open_stores
from delta_store.streams.stream_sources import SourcePosition, positions_data
from delta_store.transforms.batch_rows import gaps_behind
from delta_store.values.records import Kind
from delta_store.values.stream_message import MessageRun, StreamMessage
from delta_store.values.watermark import JournalGap
from ingest.publishing.copied_messages import CopyStore
from ingest.publishing.group import Group
from tests.spark.store import SECOND, START_NS, Store
from tests.spark.test_transforms import journal_rows
from tests.tables import marks_of, sequence_before

MakeStore = Callable[..., Store]


def copy(here: Store, name: str, seqs: Sequence[int]) -> None:
    """Store copies of messages with these sequences."""
    group = Group(rows=here.rows)
    run = [StreamMessage(f"o.{seq % 3}", seq, START_NS + seq * SECOND, None, b"%d" % seq) for seq in seqs]
    store = CopyStore(here.catalog, here.catalog.streams[name], now_ns=here.tick(), group=group)
    assert store.store(MessageRun.of(run)) == len(seqs)


def same_catalog(here: Store) -> None:
    """A gateway that starts from what is on disk gets the state that was left."""
    settled, journal = SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal"))
    rebuilt = open_stores(settled, journal).catalog
    assert marks_of(rebuilt) == marks_of(here.catalog)
    for name, state in here.catalog.streams.items():
        again = rebuilt.streams[name]
        assert again.sources == state.sources
        assert subjects_matching(again.index) == subjects_matching(state.index)
        assert (again.index.first_seq, again.index.first_ts) == (state.index.first_seq, state.index.first_ts)


def test_a_mirror_settles_with_its_gaps(store: MakeStore) -> None:
    """Gaps at the start, inside a batch, between batches and at a promotion are the origin's and stop nothing."""
    here = store()
    config = StreamConfig(name="M", mirror=StreamSource("O"), duplicate_window=0, max_msgs_per_subject=4)
    here.catalog.create(config, now_ns=here.tick(), rows=here.rows)
    copy(here, "M", [5, 6, 9])
    here.settle()
    copy(here, "M", [12, 13, 20])
    here.settle(fresh=True)
    copy(here, "M", [25])
    here.catalog.update(StreamConfig(name="M", subjects=("M.>",)), now_ns=here.tick(), rows=here.rows)
    here.publish("M", "own")
    here.settle()
    assert here.settled_seqs("M") == [5, 6, 9, 12, 13, 20, 25, 26]
    same_catalog(here)
    past = PointInTime(SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal")))
    assert [one.seq for one in past.multi_last("M", ["o.>"], up_to_seq=12).messages] == [5, 12]
    assert [one.seq for one in past.multi_last("M", [">"], up_to_seq=21).messages] == [12, 13, 20]
    assert sequence_before(past, "M", START_NS + 13 * SECOND) == 12
    shown = query(here.spark, here.data, "SELECT seq FROM M ORDER BY seq").collect()
    assert [row.seq for row in shown] == here.live("M")
    here.truncate()
    same_catalog(here)
    here.publish("M", "lost")
    here.rows = type(here.rows)()
    here.publish("M", "after")
    with pytest.raises(JournalGap):
        here.settle(fresh=True)


def test_positions_of_sources_are_kept_once(store: MakeStore) -> None:
    """Of many recorded positions the newest is settled, and found again when all copied messages are gone."""
    here = store()
    here.catalog.create(StreamConfig(name="S", sources=(StreamSource("O"),)), now_ns=here.tick(), rows=here.rows)
    state = here.catalog.streams["S"]
    for batch in range(3):
        for number in range(40):
            seq = batch * 40 + number + 1
            copy(here, "S", [seq])
            data = positions_data({"O > >": SourcePosition(seq, "AAAAAAAA"), "P > >": SourcePosition(1, "B")})
            state.record_consumer(Kind.SOURCE_STATE, name="", data=data, now_ns=here.tick(1), rows=here.rows)
        here.settle()
    assert here.consumer_rows().count() == 3
    here.catalog.purge("S", now_ns=here.tick(), rows=here.rows)
    here.settle(fresh=True)
    here.maintenance.run_due()
    here.truncate()
    assert here.consumer_rows().count() == 1
    assert state.sources["O > >"] == SourcePosition(120, "AAAAAAAA")
    same_catalog(here)


def test_gaps_of_mirrors_only(spark: SparkSession) -> None:
    """A mirror may pass over sequences, but not go back; other streams may not."""
    rows = journal_rows(spark, {"seq": 3}, {"seq": 7}, {"stream": "B", "seq": 3})
    gaps = rows.transform(gaps_behind({}, {"A"})).select("stream", "seq").collect()
    assert [tuple(row) for row in gaps] == [("B", 3)]
