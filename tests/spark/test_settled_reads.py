"""What Spark has settled is read back without Spark: the same messages, the same past, the same catalog."""

from collections.abc import Callable

from delta_store.index.matching import subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.stores.stores_open import open_stores
from delta_store.values.records import Kind, Row
from delta_store.values.subjects import SubjectFilter
from tests.spark.store import Store
from tests.tables import live_sequences, sequence_before

TOKENS = ["plain", "per%cent", "sl/ash", "eq=ual", "ünïcode", "sp:ecial$", "x" * 60]


def filled(here: Store) -> list[Row]:
    """Odd subjects, buckets, limits, a delete, truncation, and a tail that is not settled; returns all rows."""
    here.create("LOG", max_msgs=30)
    here.create("KV", max_msgs_per_subject=1)
    rows: list[Row] = []
    for number in range(61):
        if number in (25, 50, 60):
            rows.extend(here.rows.rows())
            if number == 60:
                here.commit()
            else:
                here.settle()
        here.publish("LOG", TOKENS[number % len(TOKENS)], b"%d" % number, msg_id=f"m{number}")
        here.publish("KV", f"key{number % 40}", b"v%d" % number)
        if number == 30:
            here.catalog.remove("KV", 28, now_ns=here.tick(), rows=here.rows)
    rows.extend(here.rows.rows())
    here.commit()
    here.maintenance.run_due()
    here.truncate()
    return rows


def test_spark_commits_are_read_by_their_own_rules(store: Callable[..., Store]) -> None:
    """Every past point, payload and bound of what Spark wrote is right."""
    here = store()
    rows = filled(here)
    settled, journal = SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal"))
    past, payloads = PointInTime(settled, journal), Payloads(settled, journal)
    opened = open_stores(settled, journal)
    assert {name: mark.seq for name, mark in opened.settled.watermarks.items()} == {"LOG": 50, "KV": 50}
    for name in ("LOG", "KV"):
        mine = [row for row in rows if row.stream == name]
        state, rebuilt = here.catalog.streams[name], opened.catalog.streams[name]
        assert subjects_matching(rebuilt.index) == subjects_matching(state.index)
        assert rebuilt.index.bytes == state.index.bytes
        assert rebuilt.position == state.position
        live = here.live(name)
        found = payloads.fetch(name, state.stream_id, live, subjects=subjects_matching(state.index))
        data_of = {row.seq: row.data for row in mine if row.kind == Kind.MESSAGE}
        assert {seq: message.data for seq, message in found.items()} == {seq: data_of[seq] for seq in live}
        for point in range(1, state.index.last_seq + 1, 5):
            filters = [f"{name}.>"] if point % 2 else [f"{name}.key3", f"{name}.sl/ash"]
            assert [one.seq for one in past.multi_last(name, filters, up_to_seq=point).messages] == truth(
                mine, filters, point
            )
    times = {row.seq: row.ts_ns for row in rows if row.stream == "KV" and row.kind == Kind.MESSAGE}
    assert sequence_before(past, "KV", times[17]) == 16


def truth(rows: list[Row], filters: list[str], point: int) -> list[int]:
    """The last live message of each matching subject at a point, by replaying the rows."""
    live, chosen = live_sequences(rows, point), SubjectFilter(filters)
    last = {row.subject: row.seq for row in rows if row.seq in live and row.kind == Kind.MESSAGE}
    return sorted(seq for subject, seq in last.items() if chosen.matches(subject))
