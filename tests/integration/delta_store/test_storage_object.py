"""Both tables in an object store (moto's S3): the same promises, by conditional puts that are probed and read back."""

import random
from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.clock import SystemClock
from delta_store.entries.log_entry import entry_name
from delta_store.entries.staged_file import Writing, staged_path
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import JournalReader
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settle_state import SettleState, StateListener, StateTeller
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_files import MessageFiles
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.storage.object_storage import ObjectStorage, race
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import (
    CommitUnknown,
    EntryExists,
    Fenced,
    JournalPoisoned,
    NotStored,
    StorageFailed,
    UnsafeStore,
)
from delta_store.values.read_errors import DamagedData, StoreAway
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import Op
from tests.groups import SHARD, STREAM_ID, SteppedClock, group, live_rows, message, sequences, settled_to
from tests.owned_tables import TABLES, OwnedTable
from tests.s3 import BUCKET, s3_server, storage_options
from tests.staged import open_owner, settle, stage

_folder_numbers = iter(range(1 << 30))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server with one bucket."""
    with s3_server() as server:
        yield server.url


@pytest.fixture
def storage(endpoint: str) -> ObjectStorage:
    """An empty folder of the bucket."""
    opened = open_storage(f"s3://{BUCKET}/journal-{next(_folder_numbers)}", storage_options(endpoint))
    assert isinstance(opened, ObjectStorage)
    return opened


def _journal(storage: Any, clock: SteppedClock | None = None) -> Journal:
    journal = Journal.open(storage, shard=SHARD, clock=clock or SteppedClock())
    journal.claim()
    return journal


def _read(storage: Any) -> list[int]:
    return sequences(live_rows(JournalReader.read_only(storage, shard=SHARD)))


def test_files_are_put_read_listed_and_deleted(storage: ObjectStorage) -> None:
    """The storage protocol, step by step; an entry's name is given once."""
    storage.publish(Blob(f"{LOG_FOLDER}/a.json", b"one"), Blob("a.parquet", b"data"))
    with pytest.raises(EntryExists):
        storage.publish(Blob(f"{LOG_FOLDER}/a.json", b"two"))
    assert storage.read(f"{LOG_FOLDER}/a.json") == b"one"
    storage.write(Blob("a.parquet", b"other"))
    assert (storage.sizes(""), storage.sizes(LOG_FOLDER)) == ({"a.parquet": 5}, {"a.json": 3})
    assert storage.exists("a.parquet")
    storage.delete(["a.parquet", "a.parquet"])
    assert not storage.exists("a.parquet")
    with pytest.raises(NotStored):
        storage.read("a.parquet")


def test_a_file_behind_another_one_stands_by_itself(storage: ObjectStorage) -> None:
    """Its bytes and more; what is not there is refused."""
    storage.write(Blob("a/one", b"data" * 1000))
    storage.write_behind("a/one", Blob("b/two", b"and", (b" ", b"more")))
    storage.delete(["a/one"])
    assert storage.read("b/two") == b"data" * 1000 + b"and more"
    with pytest.raises(NotStored):
        storage.write_behind("a/one", Blob("b/three", b"no"))
    assert [one.name for one in storage.walk()] == ["b/two"]


def test_files_in_folders_keep_their_names(storage: ObjectStorage) -> None:
    """Escaped ones, too: what is written is found by the walk, read and deleted by the same name; the log is apart."""
    path = staged_path(Writing(1, 1), "größe", "$events", number=0, unique="ab")
    assert "%" in path
    storage.write(Blob(path, b"data"))
    storage.write(Blob(f"{LOG_FOLDER}/a.json", b"{}"))
    [found] = storage.walk()
    assert found[:2] == (path, 4)
    assert abs(found.modified_ms - SystemClock().now_ns() // 1_000_000) < 60_000
    assert storage.read(path) == b"data"
    storage.delete([found.name])
    assert list(storage.walk()) == []


def test_messages_live_in_an_object_store(storage: ObjectStorage) -> None:
    """Append, rewrite, checkpoint, fence, vacuum; delta-rs and our readers read it after each."""
    clock = SteppedClock()
    owner = open_owner(storage, clock, horizon_seconds=100)
    for seq in range(1, 13):
        settle(owner, [message(seq, stream="größe")])
    small = set(owner.snapshot.files)
    rows = [message(seq, stream="größe") for seq in range(1, 13)]
    owner.rewrite(Op.COMPACT, small, stage(storage, rows, Writing(owner.epoch, owner.note.batch)))
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 5):
        assert owner.upkeep() == 14
    new = open_owner(storage, clock, horizon_seconds=100)
    with pytest.raises(Fenced):
        settle(owner, [message(13, stream="größe")])
    settle(new, [message(13, stream="größe")])
    clock.seconds += 200
    assert new.vacuum().files == 12 + 1
    assert len(list(storage.walk())) == len(new.snapshot.files) == 8
    table = DeltaTable(storage.uri, storage_options=dict(storage.options))
    assert table.version() == new.snapshot.version
    assert sorted(pa.table(table.to_pyarrow_table(columns=["seq"]))["seq"].to_pylist()) == list(range(1, 14))
    settled = SettledTable(storage.uri, storage_options=storage.options)
    assert settled.refresh().files == new.snapshot.files
    assert settled.fetch("größe", STREAM_ID, [7]).keys() == {7}


def test_the_journal_lives_in_an_object_store(storage: ObjectStorage) -> None:
    """Commit, fence, truncate, checkpoint, clean up and delete; delta-rs reads it after each."""
    clock = SteppedClock()
    journal = _journal(storage, clock)
    for seq in range(1, 31):
        journal.commit(group(seq))
        if seq % 10 == 0:
            journal.checkpoint()
            clock.seconds += 100
    journal.truncate(settled_to(20))
    assert journal.cleanup() == 20
    assert journal.delete_removed() == 0
    clock.seconds += 100
    assert journal.delete_removed() == 20
    assert _read(storage) == list(range(21, 31))
    new = _journal(storage, clock)
    with pytest.raises(Fenced):
        journal.commit(group(31))
    new.commit(group(31))
    assert _read(storage) == list(range(21, 32))
    table = DeltaTable(storage.uri, storage_options=dict(storage.options))
    assert table.version() == new.reader.version
    assert len(table.file_uris()) == 11


def test_the_probe_accepts_a_store_that_honours_conditional_puts(storage: ObjectStorage) -> None:
    """And leaves nothing behind."""
    storage.prepare("probe")
    assert storage.sizes("_probe") == {}


def test_of_many_racing_puts_one_wins(storage: ObjectStorage) -> None:
    """Thirty-two at once, as many as no probe at a start would risk."""
    for number in range(3):
        create = partial(storage._create, Blob(f"race-{number}", b"x"))
        assert sum(race([create] * 32)) == 1


class _LastWriterWins(ObjectStorage):
    """A store that ignores ``If-None-Match``."""

    def _create(self, blob: Blob) -> bool:
        self._put(blob, published=None)
        return True


def test_the_probe_refuses_a_store_that_ignores_conditions(storage: ObjectStorage) -> None:
    """Two gateways could both acknowledge there."""
    unsafe = _LastWriterWins(storage._store, uri=storage.uri, options=storage.options)
    for table in TABLES:
        with pytest.raises(UnsafeStore, match="3 of 3"):
            table.open(unsafe, SteppedClock())


class _Flaky(ObjectStorage):
    """A store whose conditional puts fail as told: the request is lost, or only its reply.

    ``sent twice``: the client under us lost the reply, tried again and found its own object in the way.
    """

    def __init__(self, storage: ObjectStorage, plan: list[str]) -> None:
        super().__init__(storage._store, uri=storage.uri, options=storage.options)
        self._plan = plan
        self._one_at_a_time = Lock()

    def _create(self, blob: Blob) -> bool:
        with self._one_at_a_time:
            fate = self._plan.pop(0) if self._plan else "works"
        won = super()._create(blob) if fate != "request lost" else False
        if fate == "sent twice":
            return False
        if fate != "works":
            raise StorageFailed(blob.name, fate, published=None)
        return won


TABLE = st.sampled_from(TABLES)
FATES = st.sampled_from(["works", "request lost", "reply lost", "sent twice"])


@settings(max_examples=30, deadline=None)
@given(table=TABLE, plan=st.lists(FATES, min_size=1, max_size=12))
def test_a_lost_reply_is_read_back(endpoint: str, table: OwnedTable, plan: list[str]) -> None:
    """Whatever is lost: a commit that returns is there once, one that is unknown stops the owner, none is doubled."""
    plain = open_storage(f"s3://{BUCKET}/table-{next(_folder_numbers)}", storage_options(endpoint))
    assert isinstance(plain, ObjectStorage)
    table.claimed(plain, SteppedClock())
    flaky = _Flaky(plain, [])
    owner = table.claimed(flaky, SteppedClock())
    flaky._plan = list(plan)
    acked = 0
    try:
        for seq in range(1, 6):
            table.commit(owner, seq)
            acked = seq
    except CommitUnknown:
        with pytest.raises(JournalPoisoned):
            table.commit(owner, acked + 1)
    else:
        assert acked == 5
    found = table.read(plain)
    assert found == list(range(1, len(found) + 1))
    assert acked <= len(found) <= acked + 1
    assert acked == 5 or len(plan) >= 4


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_store_that_is_away_before_the_entry_leaves_the_table_usable(
    storage: ObjectStorage, table: OwnedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The put of the file failed: no entry can name it, so the same rows may be committed again."""
    owner = table.claimed(storage, SteppedClock())

    def refuse(blob: Blob, *, published: bool | None) -> None:
        raise StorageFailed(blob.name, "connection refused", published=published, retryable=True)

    with monkeypatch.context() as away:
        away.setattr(storage, "_put", refuse)
        with pytest.raises(StorageFailed) as caught:
            table.commit(owner, 1)
    assert caught.value.retryable
    table.commit(owner, 1)
    assert table.read(storage) == [1]


def test_a_real_error_does_not_show_credentials(endpoint: str) -> None:
    """A bucket that is not there: one line, without the keys."""
    options = storage_options(endpoint) | {"AWS_SECRET_ACCESS_KEY": "very-secret"}
    storage = open_storage("s3://no-such-bucket/journal", options)
    with pytest.raises(StorageFailed) as caught:
        Journal.open(storage, shard=SHARD, clock=SteppedClock())
    assert "very-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_entry_is_the_one_that_was_meant(storage: ObjectStorage) -> None:
    """An entry of another writer in the same place is never taken for one's own, even with the same stamp."""
    first = Journal.open(storage, shard=SHARD, clock=SteppedClock(), writer="first")
    second = Journal.open(storage, shard=SHARD, clock=SteppedClock(), writer="second")
    assert first.claim() == 1
    assert second.claim() == 2
    assert storage.exists(f"{LOG_FOLDER}/{entry_name(2)}")
    assert urlsplit(storage.uri).scheme == "s3"


def test_many_small_files_are_read_in_their_order(storage: ObjectStorage, endpoint: str) -> None:
    """By several threads: more files than any of them takes at once, and the one that is damaged is named."""
    journal = _journal(storage)
    for seq in range(1, 151):
        journal.commit(group(seq))
    tail = JournalTail(storage.uri, storage_options=storage_options(endpoint))
    found = [seq for rows in rows_above(tail, tail.refresh(), {}) for seq in rows.seq]
    assert found == list(range(1, 151))
    harmed = journal.reader.live_files()[140]
    storage.write(Blob(harmed.name, storage.read(harmed.name)[:-9]))
    with pytest.raises(DamagedData) as caught:
        list(rows_above(tail, tail.refresh(), {}))
    assert caught.value.file.endswith(harmed.name)


def test_small_objects_are_read_by_one_request_and_large_ones_by_ranges(storage: ObjectStorage) -> None:
    """With the same rows; one that is gone is told as gone, whichever way it would be read."""
    files, root = filesystem_of(storage.uri, storage.options)
    rows = pa.table({"seq": range(80_000), "noise": [random.Random(1).randbytes(16) for _ in range(80_000)]})
    for name, table in (("small.parquet", rows.slice(0, 10)), ("large.parquet", rows)):
        body = pa.BufferOutputStream()
        pq.write_table(table, body, row_group_size=20_000, compression="none")
        storage.write(Blob(name, body.getvalue()))
        file = pq.ParquetFile(files.open_input_file(f"{root}/{name}"), page_checksum_verification=True)
        assert file.read() == table
        assert file.read_row_group(file.num_row_groups - 1) == table.slice((file.num_row_groups - 1) * 20_000)
    with pytest.raises(FileNotFoundError):
        files.open_input_file(f"{root}/gone.parquet")


def test_a_store_that_does_not_answer_is_not_taken_for_damage() -> None:
    """Neither by those who follow a log nor by those who read a file: it may be tried again."""
    options = storage_options("http://127.0.0.1:1") | {"connect_timeout": "200ms", "timeout": "300ms"}
    url = f"s3://{BUCKET}/away"
    for read in (
        JournalTail(f"{url}/journal", storage_options=options).refresh,
        SettledTable(f"{url}/messages", storage_options=options).refresh,
        partial(MessageFiles(filesystem_of(url, options)[0], cache_bytes=0).whole, f"{url}/file.parquet"),
    ):
        with pytest.raises(StoreAway) as caught:
            read()
        assert caught.value.retryable


def test_a_settle_job_is_heard_from_a_machine_with_another_clock(endpoint: str) -> None:
    """An hour apart: it runs while it says something, and is silent when what it said does not change any more."""
    url, options = f"s3://{BUCKET}/told", storage_options(endpoint)
    there, here = SteppedClock(), SteppedClock()
    there.seconds -= 3600
    listener = StateListener(url, here, storage_options=options)
    assert listener.news().state is SettleState.SILENT
    teller = StateTeller(url, there, storage_options=options)
    teller.tell(SettleState.SETTLING)
    listener.news()
    for _ in range(3):
        there.seconds += 5
        here.seconds += 5
        teller.tell(SettleState.FAILING, "no Java")
        assert listener.news() == (SettleState.FAILING, "no Java")
    here.seconds += 60
    assert listener.news() == (SettleState.SILENT, "no Java")
