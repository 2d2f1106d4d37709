"""The settle job copies what branches begin with: rows like any others, of a stream that stands by itself."""

from collections.abc import Callable

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import functions as sf

from conf.data_location import DataLocation
from delta_store.checking.verify_store import verify_store
from delta_store.entries.settled_file import ROW_GROUP_ROWS
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.past_runs import PastRuns
from delta_store.reading.settled import SettledTable
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.stores.stores_open import restore_stream
from delta_store.streams import restores
from delta_store.streams.stream_state import StreamState
from delta_store.values.as_of import AsOf
from tests.spark.store import Store
from tests.tables import marks_of

MakeStore = Callable[..., Store]
MANY = 2 * ROW_GROUP_ROWS + 5


def branched(here: Store, point: int) -> tuple[StreamState, list[int]]:
    """Branch ORDERS at a point as THEN, and have it settled; return it, and the sequences that it begins with."""
    location = DataLocation(str(here.data))
    runs = PastRuns(SlicePlanner.of(location), location)
    plan = runs.plan("ORDERS", AsOf(seq=point))
    base = BranchBase.of(plan.slice.parts, plan.first_seq)
    assert base is not None
    then = runs.of(plan, base.parts).seqs.tolist()
    state = restores.begin(here.catalog, here.config("THEN"), now_ns=here.tick(), rows=here.rows)
    bounds = (base.first_seq, base.last_seq)
    restores.rest_on(state, base.as_json(), bounds, now_ns=here.tick(), rows=here.rows)
    here.settle()
    table = SettledTable(location.table("messages"))
    version = table.refresh()
    files = [file for file in version.of_stream("THEN") if file.has_messages]
    restore_stream(state, version.watermarks["THEN"], [], table, files)
    restores.show(here.catalog, state, now_ns=here.tick(), rows=here.rows)
    return state, then


def test_a_branch_settles_by_its_origins_files(store: MakeStore) -> None:
    """Rows of the point and no others, with its own id; cleanup and vacuum of the origin take nothing of it."""
    here = store(horizon_seconds=0)
    here.create("ORDERS", max_msgs_per_subject=3)
    for number in range(40):
        here.publish("ORDERS", f"s{number % 4}", b"%d" % number, msg_id=f"m{number}")
    here.settle()
    state, then = branched(here, 30)
    assert then == list(range(19, 31))
    here.publish("THEN", "new")
    here.settle()
    assert here.settled_seqs("THEN") == [*then, 31] == here.live("THEN")
    assert here.owner.note.watermarks == marks_of(here.catalog)
    origin = {row["seq"]: row for row in here.settled("ORDERS", "*") if row["kind"] == "message"}
    for row in here.settled("THEN", "*"):
        if row["kind"] == "message" and row["seq"] < 31:
            same = ("seq", "subject", "ts_ns", "msg_id", "headers", "data", "crc", "size")
            assert [row[name] for name in same] == [origin[row["seq"]][name] for name in same]
            assert (row["stream_id"], row["evicts"]) == (state.stream_id, 0)
    here.catalog.purge("ORDERS", now_ns=here.tick(), rows=here.rows)
    here.settle()
    progress = here.sink.progress()
    here.maintenance.drop_dead_files(progress)
    progress.owner.vacuum()
    assert here.settled_seqs("ORDERS") == []
    assert here.settled_seqs("THEN") == [*then, 31]
    assert verify_store(DataLocation(str(here.data))).findings == ()


def shared_with(here: Store, stream: str, origin: str) -> list[str]:
    """The files of a stream that begin with all bytes of one of another's."""
    root = here.data / "messages"
    theirs = [path.read_bytes() for path in root.glob(f"stream={origin}/*/*.parquet")]
    files = [file.path for file in here.owner.snapshot.of_stream(stream) if file.has_messages]
    return [path for path in files if any((root / path).read_bytes().startswith(one) for one in theirs)]


def test_a_shared_file_is_read_whole_however_it_is_divided(store: MakeStore) -> None:
    """Each row once, by Spark in many tasks and by delta-rs."""
    here = store()
    here.create("ORDERS")
    for number in range(MANY):
        here.publish("ORDERS", "s", b"%d" % (number * 7919))
    here.settle()
    state, then = branched(here, MANY)
    assert len(shared_with(here, "THEN", "ORDERS")) == 1
    here.spark.conf.set("spark.sql.files.maxPartitionBytes", 32 * 1024)
    try:
        rows = here.all_rows(where="stream = 'THEN' AND kind = 'message'")
        assert rows.rdd.getNumPartitions() > MANY // ROW_GROUP_ROWS
        found = rows.groupBy("stream_id", "evicts", "first_seq").agg(
            sf.count("*"), sf.sum("seq"), sf.countDistinct("seq")
        )
        assert list(map(tuple, found.collect())) == [(state.stream_id, 0, 1, MANY, sum(then), MANY)]
    finally:
        here.spark.conf.unset("spark.sql.files.maxPartitionBytes")
    chosen = [("stream", "=", "THEN"), ("stream_id", "=", state.stream_id), ("kind", "=", "message")]
    table = DeltaTable(here.data / "messages").to_pyarrow_table(columns=["seq"], filters=chosen)
    assert sorted(table["seq"].to_pylist()) == then


def test_what_a_branch_erases_leaves_its_files(store: MakeStore) -> None:
    """As in any stream, by cleanup and vacuum; the origin keeps it."""
    here = store(horizon_seconds=0)
    here.create("ORDERS")
    for number in range(60):
        here.publish("ORDERS", "s", b"secret %d." % number)
    here.settle()
    _, then = branched(here, 60)
    assert len(shared_with(here, "THEN", "ORDERS")) == 1
    here.catalog.remove("THEN", 7, now_ns=here.tick(), rows=here.rows)
    here.settle()
    here.maintenance.delete_dead_rows(here.sink.progress())
    here.sink.progress().owner.vacuum()
    for name, has in (("THEN", False), ("ORDERS", True)):
        files = list((here.data / "messages").glob(f"stream={name}/*/*.parquet"))
        assert any(b"secret 6." in pq.ParquetFile(path).read()["data"].to_pylist() for path in files) == has
    assert shared_with(here, "THEN", "ORDERS") == []
    assert here.settled_seqs("THEN") == [seq for seq in then if seq != 7]
    assert verify_store(DataLocation(str(here.data))).findings == ()
