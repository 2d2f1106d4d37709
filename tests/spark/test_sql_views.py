"""SQL shows what JetStream shows: settled or not, now and at a point."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from delta_store.entries.log_entry import entry_name
from delta_store.settling.sql_views import query, register
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from tests.spark.store import SECOND, Store

MakeStore = Callable[..., Store]


def filled(store: MakeStore) -> Store:
    """A stream half settled, half in the journal, with evictions that reach over the border."""
    here = store()
    here.create("KV", max_msgs_per_subject=1)
    here.create("LOG", max_msgs=4)
    for number in range(6):
        here.publish("KV", f"k{number % 3}", b"%d" % number)
        here.publish("LOG", "x", b"%d" % number)
    here.settle()
    for number in range(6, 8):
        here.publish("KV", f"k{number % 3}", b"%d" % number)
        here.publish("LOG", "x", b"\xff")
    here.catalog.remove("KV", 6, now_ns=here.tick(), rows=here.rows)
    here.commit()
    return here


def test_views_show_live_messages(store: MakeStore) -> None:
    """A stream's view has the rows that the gateway would serve, before and after they are settled."""
    here = filled(store)
    assert register(here.spark, here.data) == ["KV", "LOG"]
    for _ in range(2):
        for name in ("KV", "LOG"):
            found = [row["seq"] for row in query(here.spark, here.data, f'SELECT seq FROM "{name}"').collect()]
            assert sorted(found) == here.live(name)
        here.settle()
    asked = "SELECT *, unix_micros(time) AS micros, CAST(time AS STRING) AS shown FROM KV WHERE seq = 7"
    [row] = query(here.spark, here.data, asked).collect()
    assert (row.subject, bytes(row.data), row.text, row.json, row.msg_id) == ("KV.k0", b"6", "6", "6", None)
    assert (row.micros, row.headers, row.tokens) == (row.ts_ns // 1000, None, ["KV", "k0"])
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.micros)
    assert row.shown == str(moment).removesuffix("+00:00")
    assert query(here.spark, here.data, "SELECT text FROM LOG WHERE seq = 8").head().text is None


def test_a_view_costs_what_its_stream_needs(store: MakeStore) -> None:
    """No join and no other column where nothing was removed; where something was, rows are left out by a join."""
    here = store()
    for name, per_subject in (("PLAIN", -1), ("LAST", 1)):
        here.create(name, max_msgs_per_subject=per_subject)
        for _ in range(2):
            here.publish(name, "x")
    here.settle()
    register(here.spark, here.data)
    plain, last = (
        str(here.spark.sql(f"EXPLAIN SELECT subject, count(*) FROM {name} GROUP BY subject").head()[0])
        for name in ("PLAIN", "LAST")
    )
    assert "Scan" in plain
    assert not any(word in plain for word in ("Join", "kind", "stream_id", "first_seq"))
    assert "Join" in last


def test_a_statement_reads_the_files_that_it_asks_for(store: MakeStore) -> None:
    """A subject, a prefix, a range of sequences: files that can't hold them are not read."""
    here = store()
    here.create("LOG")
    for number in range(6):
        for leaf in "ab":
            here.publish("LOG", f"{number:02d}.{leaf}")
        here.settle()
    for text, seqs, most in [
        ("LOG", list(range(1, 13)), 6),
        ("LOG WHERE subject = 'LOG.03.a'", [7], 1),
        ("LOG WHERE subject LIKE 'LOG.03.%'", [7, 8], 1),
        ("LOG WHERE startswith(subject, 'LOG.03.')", [7, 8], 1),
        ("LOG WHERE subject IN ('LOG.02.b', 'LOG.03.a')", [6, 7], 2),
        ("LOG WHERE seq BETWEEN 3 AND 6", [3, 4, 5, 6], 2),
    ]:
        found = query(here.spark, here.data, f"SELECT seq FROM {text} ORDER BY seq")
        assert [row.seq for row in found.collect()] == seqs, text
        assert len(found.inputFiles()) <= most, text


def test_views_keep_their_version(store: MakeStore) -> None:
    """A registered view does not change under its user; registering again shows the rest."""
    here = filled(store)
    register(here.spark, here.data)
    before = here.spark.table("LOG").count()
    here.publish("LOG", "x")
    here.settle()
    assert here.spark.table("LOG").agg({"seq": "max"}).head()[0] == 8
    register(here.spark, here.data)
    assert here.spark.table("LOG").agg({"seq": "max"}).head()[0] == 9
    assert before == 4


def test_streams_report(store: MakeStore) -> None:
    """``silt_streams`` has the state that stream info has, and how far each stream is settled."""
    here = filled(store)
    here.create("EMPTY")
    here.commit()
    rows = {row["name"]: row for row in query(here.spark, here.data, "SELECT * FROM silt_streams").collect()}
    for name in ("KV", "LOG"):
        index = here.catalog.streams[name].index
        row = rows[name]
        assert (row.messages, row.bytes, row.first_seq, row.last_seq) == (
            index.msgs, index.bytes, index.first_seq, index.last_seq
        )  # fmt: skip
        assert row.settled_seq == 6
    assert (rows["EMPTY"].messages, rows["EMPTY"].last_seq) == (0, 0)


def test_max_age_counts_when_the_query_runs(store: MakeStore) -> None:
    """Messages that have grown too old are not shown, though nothing has recorded their end yet."""
    here = store()
    here.create("OLD", max_age=60 * SECOND)
    here.publish("OLD", "x")
    here.commit()
    assert query(here.spark, here.data, "SELECT * FROM OLD").count() == 0


def test_multi_last_at_a_point(store: MakeStore) -> None:
    """The table function gives the past that limits have removed since, by sequence and by time."""
    here = filled(store)
    found = query(here.spark, here.data, "SELECT seq, text FROM multi_last('KV', 'KV.>', 5) ORDER BY seq").collect()
    assert [tuple(row) for row in found] == [(3, "2"), (4, "3"), (5, "4")]
    found = query(here.spark, here.data, "SELECT seq FROM multi_last('KV', array('KV.k0', 'KV.k1'), up_to_seq => 2)")
    assert sorted(row.seq for row in found.collect()) == [1, 2]
    newest = query(here.spark, here.data, "SELECT max(time) FROM multi_last('KV', 'KV.>')").head()[0]
    assert newest is not None
    past = query(
        here.spark, here.data, "SELECT count(*) FROM multi_last('KV', 'KV.>', up_to_time => TIMESTAMP'2000-01-01')"
    )
    assert past.head()[0] == 0


def test_before_anything_is_settled_or_stored(store: MakeStore, tmp_path: object) -> None:
    """Views exist before the settle job has made its table, and an empty folder has none."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.commit()
    assert query(here.spark, here.data, "SELECT count(*) FROM A").head()[0] == 1
    assert register(here.spark, here.data / "nothing") == []


def test_nothing_is_shown_or_settled_past_damage(store: MakeStore) -> None:
    """What the gateway refuses to open is neither pinned for SQL nor carried into ``messages``."""
    here = filled(store)
    for number in range(3):
        here.publish("LOG", "y", b"%d" % number)
        here.commit()
    settled = here.owner.note.batch
    entry = here.data / "journal" / LOG_FOLDER / entry_name(here.journal.reader.version - 1)
    entry.write_bytes(entry.read_bytes().replace(b'"operation":"WRITE"', b'"operation":"WRITF"'))
    for read in (lambda: query(here.spark, here.data, "SELECT * FROM LOG"), lambda: here.settle(fresh=True)):
        with pytest.raises(DamagedData, match=entry.name):
            read()
    assert here.owner.note.batch == settled
