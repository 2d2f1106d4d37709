"""Recorded effects applied to the table: late, all at once, and never so that a removed message comes back."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable

from delta_store.log.delta_log import DeltaLog, MessagesFormat
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.past_files import past_files
from delta_store.reading.point_in_time import Point, PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.settled import settled_upkeep
from delta_store.settled.settled_before import SettledBefore
from delta_store.settling import upkeep_choice
from delta_store.settling.upkeep_pace import Schedule
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row, restore_watermarks
from delta_store.values.read_errors import PastHorizon
from delta_store.values.records import Row
from delta_store.values.schemas import MESSAGES_COLUMNS
from delta_store.values.watermark import Op
from tests.groups import SteppedClock
from tests.spark.store import SECOND, Store
from tests.tables import marks_of

MakeStore = Callable[..., Store]


def newest_entry(store: Store) -> list[dict[str, object]]:
    """The actions of the newest commit to ``messages``."""
    log = max((store.data / "messages" / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in log.open()]


def delta_rs_seqs(store: Store, name: str) -> list[int]:
    """The settled messages as the other engine sees them."""
    table = DeltaTable(str(store.data / "messages")).to_pyarrow_table(partitions=[("stream", "=", name)])
    kinds, seqs = table["kind"].to_pylist(), table["seq"].to_pylist()
    return sorted(seq for kind, seq in zip(kinds, seqs, strict=True) if kind == "message")


def test_every_recorded_effect_is_applied(store: MakeStore) -> None:
    """Evictions, deletes, purges, fronts and deleted streams: what is left is what JetStream would show."""
    here = store()
    here.create("KV", max_msgs_per_subject=1)
    here.create("LOG", max_msgs=5)
    here.create("GONE")
    here.create("BACK")
    for number in range(12):
        here.publish("KV", f"k{number % 4}")
        here.publish("LOG", "x")
        here.publish("GONE", "x")
        here.publish("BACK", "x")
    here.settle()
    rows, now = here.rows, here.tick
    here.catalog.remove("KV", 9, now_ns=now(), rows=rows)
    here.catalog.purge("LOG", subject="LOG.x", keep=3, now_ns=now(), rows=rows)
    here.catalog.delete("GONE", now_ns=now(), rows=rows)
    here.catalog.delete("BACK", now_ns=now(), rows=rows)
    here.create("BACK")
    here.publish("BACK", "x")
    here.settle()
    with here.sink.lock:
        here.maintenance.delete_dead_rows(here.sink.progress())
    for name in ("KV", "LOG", "BACK"):
        assert delta_rs_seqs(here, name) == here.live(name)
    assert delta_rs_seqs(here, "GONE") == []
    assert here.owner.note.op is Op.LIMITS
    assert here.owner.note.watermarks["KV"] == marks_of(here.catalog)["KV"]


def test_what_was_removed_just_now_is_not_deleted_yet(store: MakeStore) -> None:
    """Cleanup deletes what was dead at the last commit of a minute ago: evictions, fronts, deletes, whole streams."""
    here = store()
    here.schedule = Schedule()
    here.start()
    clock = SteppedClock()
    here.create("KV", max_msgs_per_subject=1)
    for name in ("LOG", "ANEW", "GONE", "REST"):
        here.create(name, max_msgs=4)
    for half in range(2):
        for number in range(6):
            for name in ("KV", "LOG", "ANEW", "GONE", *(["REST"] if not half else [])):
                here.publish(name, f"k{number % 3}")
        here.catalog.remove("LOG", here.live("LOG")[1], now_ns=here.tick(), rows=here.rows)
        if half:
            here.catalog.delete("GONE", now_ns=here.tick(), rows=here.rows)
            here.catalog.delete("ANEW", now_ns=here.tick(), rows=here.rows)
            here.create("ANEW")
            here.publish("ANEW", "x")
        else:
            here.catalog.purge("REST", now_ns=here.tick(), rows=here.rows)
        here.settle()
        if not half:
            then = {name: here.live(name) for name in here.catalog.streams}
            settled_ms = DeltaLog(here.owner.storage, MessagesFormat()).entry(here.owner.snapshot.version).timestamp_ms
    here.sink.progress().before = SettledBefore(here.owner.storage, clock)
    clock.seconds += settled_ms / 1e3 - clock.now_ns() / 1e9 + Schedule().grace_seconds + 0.0005
    with here.sink.lock:
        here.maintenance.delete_dead_rows(here.sink.progress())
    expected = {name: then[name] + list(range(7, 13)) for name in ("KV", "LOG", "GONE")}
    expected |= {"ANEW": sorted([*then["ANEW"], *range(7, 13), 1]), "REST": []}
    assert {name: delta_rs_seqs(here, name) for name in expected} == expected
    clock.seconds += 600
    with here.sink.lock:
        here.maintenance.delete_dead_rows(here.sink.progress())
    for name in expected:
        assert delta_rs_seqs(here, name) == (here.live(name) if name != "GONE" else [])


def test_dead_files_leave_unread(store: MakeStore) -> None:
    """Files wholly below the first sequence go by a log entry alone; a file that is partly dead stays."""
    here = store()
    here.create("LOG", max_msgs=3)
    for _ in range(4):
        for _ in range(4):
            here.publish("LOG", "x")
        here.settle()
    with here.sink.lock:
        dropped = here.maintenance.drop_dead_files(here.sink.progress())
    assert dropped == 12
    assert here.owner.note.op is Op.LIMITS
    assert not [line for line in newest_entry(here) if "add" in line]
    assert delta_rs_seqs(here, "LOG") == [13, 14, 15, 16]
    assert len(here.settled("LOG", "kind")) == 5


def test_an_erased_message_leaves_the_disk(store: MakeStore) -> None:
    """After limits and vacuum with no horizon, an erased payload is in no file of the table."""
    here = store(horizon_seconds=0)
    here.create("A")
    here.publish("A", "x", b"keep" * 20)
    here.publish("A", "x", b"SECRET" * 20)
    here.settle()
    here.catalog.remove("A", 2, now_ns=here.tick(), rows=here.rows)
    here.settle()
    here.maintenance.run_due()
    assert delta_rs_seqs(here, "A") == [1]
    live = DeltaTable(str(here.data / "messages")).file_uris()
    on_disk = [str(file) for file in (here.data / "messages").rglob("*.parquet") if "_delta_log" not in str(file)]
    assert sorted(Path(uri.removeprefix("file://")) for uri in live) == sorted(map(Path, on_disk))


def test_compaction_changes_no_row(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small files become few; rows, watermarks and the other engine's view stay as they were."""
    monkeypatch.setattr(upkeep_choice, "SMALL_FILES_MIN", 3)
    here = store()
    here.create("A")
    for _ in range(3):
        here.publish("A", "x")
        here.settle()
    columns = [column.name for column in MESSAGES_COLUMNS if column.name != "subject_partition"]
    before = here.settled("A", *columns)
    with here.sink.lock:
        assert here.maintenance.compact(here.sink.progress()) >= 1
    assert here.settled("A", *columns) == before
    assert delta_rs_seqs(here, "A") == [1, 2, 3]
    assert here.owner.note.op is Op.COMPACT
    assert not any('dataChange":true' in json.dumps(action, separators=(",", ":")) for action in newest_entry(here))
    [_] = [file for file in here.owner.snapshot.files.values() if file.subject_partition == "A.x"]
    assert ("A", "$recent") not in here.folders()
    here.publish("A", "x")
    here.settle(fresh=True)
    assert here.settled_seqs("A") == [1, 2, 3, 4]


def test_killed_between_append_and_limits(store: MakeStore) -> None:
    """A job that dies after an append finds, when it starts again, what is dead, and ends up with the same rows."""
    here = store()
    here.create("KV", max_msgs_per_subject=1)
    for number in range(6):
        here.publish("KV", f"k{number % 2}")
    here.settle()
    here.settle(fresh=True)
    with here.sink.lock:
        here.maintenance.delete_dead_rows(here.sink.progress())
    assert here.settled_seqs("KV") == here.live("KV") == [5, 6]


def test_a_catalog_rebuilt_from_the_table_is_the_same(store: MakeStore) -> None:
    """Before and after limits are applied, a gateway that starts from ``messages`` alone gets the state it left."""
    here = store()
    here.create("KV", max_msgs_per_subject=2)
    here.create("AGED", max_age=30 * SECOND)
    for number in range(9):
        here.publish("KV", f"k{number % 2}")
        here.publish("AGED", "x")
        here.tick(5 * SECOND)
    here.catalog.expire(now_ns=here.tick(), rows=here.rows)
    here.catalog.remove("KV", 9, now_ns=here.tick(), rows=here.rows)
    here.settle()
    for _ in range(2):
        rebuilt = Catalog()
        for row in here.all_rows().orderBy("stream_id", "seq", "event_no").collect():
            replay_row(rebuilt, _as_row(row.asDict()))
        restore_watermarks(rebuilt, here.owner.note.watermarks)
        for name in ("KV", "AGED"):
            index, was = rebuilt.streams[name].index, here.catalog.streams[name].index
            assert index.live.sequences(1, 99).tolist() == here.live(name)
            assert (index.msgs, index.bytes, index.first_seq, index.last_seq) == (
                was.msgs, was.bytes, was.first_seq, was.last_seq
            )  # fmt: skip
        with here.sink.lock:
            here.maintenance.delete_dead_rows(here.sink.progress())


def test_a_stream_keeps_its_past_as_long_as_it_says(store: MakeStore) -> None:
    """Upkeep leaves the files of one that asks for them, though the setting keeps none; also after a restart."""
    here = store(horizon_seconds=0)
    for name, metadata in (("KEPT", {"silt.history": "1h"}), ("GONE", {})):
        here.create(name, max_msgs_per_subject=1, metadata=metadata)
    for _ in range(2):
        for name in ("KEPT", "GONE"):
            here.publish(name, "x")
        here.settle()
    here.start()
    here.maintenance.run_due()
    past = PointInTime(SettledTable(str(here.data / "messages")), JournalTail(str(here.data / "journal")))
    state = past.with_view("KEPT", lambda view: past.payloads(past.base(view, Point(1)), view, np.array([1])))
    assert [one.seq for one in state] == [1]
    with pytest.raises(PastHorizon, match="the oldest that can be read is sequence 2, or the time 2025-"):
        past.multi_last("GONE", ["GONE.x"], up_to_seq=1)
    assert [len(past_files(past.settled, name)) for name in ("KEPT", "GONE")] == [1, 0]


def test_old_events_are_forgotten(store: MakeStore) -> None:
    """Superseded events older than twice the horizon go; the newest configuration of a live stream never does."""
    here = store(horizon_seconds=1)
    here.create("A")
    for limit in range(10, 14):
        here.catalog.update(here.config("A", max_msgs=limit), now_ns=here.tick(), rows=here.rows)
    here.publish("A", "x")
    here.settle()
    with here.sink.lock:
        here.maintenance.delete_dead_rows(here.sink.progress())
    rows = here.settled("A", "kind", "data")
    assert [row["kind"] for row in rows] == ["stream", "message"]
    assert json.loads(bytes(rows[0]["data"]))["config"]["max_msgs"] == 13


def test_readers_find_watermarks_after_every_kind_of_commit(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's reader sees the same watermarks after append, limits, compaction, checkpoint and vacuum."""
    monkeypatch.setattr(upkeep_choice, "SMALL_FILES_MIN", 2)
    monkeypatch.setattr(settled_upkeep, "SETTLED_CHECKPOINT_COMMITS", 1)
    here = store(horizon_seconds=0)
    here.create("KV", max_msgs_per_subject=1)
    here.create("LOG")
    for _ in range(2):
        here.publish("KV", "k")
        here.publish("LOG", "x")
        here.settle()
    here.maintenance.run_due()
    assert list((here.data / "messages" / "_delta_log").glob("*.checkpoint*.parquet"))
    reader = SettledTable(str(here.data / "messages"))
    reader.refresh()
    assert reader.watermarks == marks_of(here.catalog)


def _as_row(values: dict[str, object]) -> Row:
    wanted = {name: values[name] for name in Row._fields}
    binary = {name: bytes(wanted[name]) if wanted[name] is not None else None for name in ("headers", "data")}
    return Row(**(wanted | binary))
