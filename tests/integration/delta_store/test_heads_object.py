"""``heads`` and ``removed`` in an object store: written, read, found whole and made anew as in a folder."""

from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from conf.clock import SystemClock
from conf.data_location import DataLocation
from delta_store.checking.repair_store import Planner
from delta_store.checking.verify_heads import look_at_heads
from delta_store.entries import head_rows
from delta_store.heads.head_tables import HeadTables
from delta_store.heads.stored_rows import read_heads
from delta_store.storage.open_storage import open_storage
from delta_store.values.schemas import MESSAGES_FOLDER
from tests.s3 import BUCKET, s3_server, storage_options
from tests.staged import open_owner, settle
from tests.tables import History, live_sequences


@pytest.fixture(scope="module")
def data() -> Iterator[DataLocation]:
    """A location in an S3 server's bucket."""
    with s3_server() as server:
        yield DataLocation(f"s3://{BUCKET}/store", storage_options(server.url))


def test_they_live_in_an_object_store(data: DataLocation) -> None:
    """A foreign reader finds by their rows what is live; a lost file is found, and made good."""
    place, history, clock = data.table(MESSAGES_FOLDER), History(per_subject=1), SystemClock()
    storage = open_storage(place, data.options)
    owner = open_owner(storage, clock)
    heads = HeadTables.open(owner, clock=clock)
    settle(owner, [history.create(), history.publish("s.kept")])
    for number in range(3):
        before = set(owner.snapshot.files)
        settle(owner, [history.publish(f"s.{number % 2}"), history.publish("s.9")])
        heads.follow([path for path in owner.snapshot.files if path not in before])
    head = head_rows.living(read_heads(place, data.options))["S"]
    assert (head.watermark, head.first_seq, head.version) == (7, 1, owner.snapshot.version)
    removed = DeltaTable(data.table("removed"), storage_options=dict(data.options)).to_pyarrow_table()
    gone = set(removed["low"].to_pylist())
    assert {seq for seq in range(1, 8) if seq not in gone} == live_sequences(history.rows)
    assert look_at_heads(data).findings == ()
    lost = open_storage(data.table("heads"), data.options)
    lost.delete([next(iter(lost.walk())).name])
    [found] = look_at_heads(data).findings
    assert (found.table, found.what) == ("heads", "missing")
    for step in Planner(data, clock, 1000).plan(accept_lost_journal=False):
        step.do()
    assert look_at_heads(data).findings == ()
    assert head_rows.living(read_heads(place, data.options))["S"].watermark == 7
