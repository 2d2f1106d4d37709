"""The settle job copies what branches begin with: rows like any others, of a stream that stands by itself."""

from collections.abc import Callable

from conf.data_location import DataLocation
from delta_store.checking.verify_store import verify_store
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
