"""The settle job against a real journal: nothing twice, nothing lost, whatever is killed or lost between."""

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count, product

import pytest
from deltalake import DeltaTable

from conf.data_location import data_location
from conf.settings import Settings
from delta_store.entries import journal_file
from delta_store.entries.journal_file import checksums
from delta_store.entries.staged_file import StagedFile
from delta_store.log.log_repair import repair_messages
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling import journal_source, upkeep_choice
from delta_store.settling.journal_rows import JournalRows
from delta_store.settling.journal_stream import JournalStreamReader
from delta_store.settling.settle_batch import DamagedRows
from delta_store.settling.settle_job import SettleJob
from delta_store.settling.warm_up import ROWS, warm_up
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import Fenced, StorageFull
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import RowColumns, checksum, stored_size
from delta_store.values.watermark import CommitNote, JournalGap, Op
from tests.spark.store import Store
from tests.tables import marks_of

MakeStore = Callable[..., Store]


def notes(store: Store) -> list[CommitNote]:
    """The note of each commit to ``messages``, oldest first."""
    log = sorted((store.data / "messages" / "_delta_log").glob("*.json"))
    lines = [line for file in log for line in file.read_text().splitlines()]
    infos = [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
    return [CommitNote.from_json(info["userMetadata"]) for info in infos]


def staged_files(store: Store) -> set[str]:
    """Data files in the table's folder, committed or not."""
    table = store.data / "messages"
    return {str(file.relative_to(table)) for file in table.rglob("part-*.parquet")}


def test_settled_rows_are_the_published_ones(store: MakeStore) -> None:
    """Each row arrives once with all its columns, its stored size, a checksum that holds, and its folder."""
    here = store()
    here.create("ORDERS")
    for number in range(20):
        here.publish("ORDERS", f"s{number % 3}", b"%d" % number, msg_id=f"m{number}" if number % 2 else None)
    here.settle()
    rows = here.settled("ORDERS", "*")
    assert [row["seq"] for row in rows] == [0, *range(1, 21)]
    for row in rows[1:]:
        headers = bytes(row["headers"]) if row["headers"] is not None else None
        assert row["size"] == stored_size(row["subject"], headers, bytes(row["data"]))
        assert row["crc"] == checksum(row["subject"], headers, bytes(row["data"]))
        assert row["subject_partition"] == "$recent"
    assert rows[0]["subject_partition"] == "$events"
    append = notes(here)[-1]
    assert append.op is Op.APPEND
    assert append.watermarks == marks_of(here.catalog)


def test_position_is_the_watermark_not_the_checkpoint(store: MakeStore) -> None:
    """With the checkpoint lost, and in a new process, nothing is settled twice and nothing missed."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    for _ in range(3):
        here.publish("A", "x")
        here.settle(fresh=True)
    here.sink.forget_position()
    here.settle()
    assert here.settled_seqs("A") == [1, 2, 3, 4]


def test_settling_starts_behind_truncation_and_log_cleanup(store: MakeStore) -> None:
    """With settled files deleted and log entries cleaned up, settling goes on from what is left."""
    here = store()
    here.create("A")
    for _ in range(3):
        here.publish("A", "x")
        here.commit()
    here.settle()
    assert here.truncate() > 0
    here.settle(fresh=True)
    here.journal.checkpoint()
    here.publish("A", "x")
    here.commit()
    here.publish("A", "x")
    here.commit()
    here.journal.checkpoint()
    assert here.journal.cleanup(min_age_seconds=0) > 0
    here.publish("A", "x")
    here.settle(fresh=True)
    assert here.settled_seqs("A") == [1, 2, 3, 4, 5, 6]


def test_a_gap_stops_settling(store: MakeStore) -> None:
    """Rows behind missing ones are never settled: the watermark would say that the missing ones are there."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    here.publish("A", "x")
    here.rows = RowColumns()
    here.publish("A", "x")
    with pytest.raises(JournalGap):
        here.settle()
    assert here.settled_seqs("A") == [1]
    assert JournalGap("A", 1, 3).settled == 1


def test_damaged_rows_stop_settling(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose checksum does not hold is reported, not carried on."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    before = here.owner.snapshot.version
    staged = set((here.data / "messages").rglob("*.parquet"))
    here.publish("A", "x")
    with monkeypatch.context() as damaging:
        damaging.setattr(journal_file, "checksums", lambda rows: [one + 1 for one in checksums(rows)])
        here.commit()
    with pytest.raises(DamagedRows):
        here.settle()
    assert here.owner.note.op is Op.APPEND or here.owner.snapshot.version > before
    assert here.settled_seqs("A") == [1]
    assert set((here.data / "messages").rglob("*.parquet")) == staged


def test_a_second_committer_fences_the_first(store: MakeStore) -> None:
    """A job that has been replaced commits nothing, says so, leaves no file behind, and claims nothing back."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    zombie = here.sink
    here.publish("A", "x")
    here.settle(fresh=True)
    files = set((here.data / "messages").rglob("*.parquet"))
    with pytest.raises(Fenced):
        zombie(here.files(), 0)
    assert zombie.fenced is not None
    with pytest.raises(Fenced), zombie.lock, zombie.guarded():
        zombie.progress()
    assert set((here.data / "messages").rglob("*.parquet")) == files
    assert here.settled_seqs("A") == [1, 2]
    here.publish("A", "x")
    here.settle()
    assert here.settled_seqs("A") == [1, 2, 3]


@pytest.mark.parametrize("landed", [False, True])
def test_killed_around_an_append(store: MakeStore, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    """Whether or not an append landed before the job failed, the next start adds each row once.

    What was staged and not committed is deleted by vacuum, once nobody can commit it any more.
    """
    here = store(horizon_seconds=0)
    here.create("A")
    here.publish("A", "x")
    append = SettledOwner.append

    def failing(owner: SettledOwner, files: Sequence[StagedFile], note: CommitNote) -> int:
        if landed:
            append(owner, files, note)
        raise OSError("the answer is lost")

    with monkeypatch.context() as broken:
        broken.setattr(SettledOwner, "append", failing)
        with pytest.raises(Exception, match="the answer is lost"):
            here.settle()
    here.settle()
    assert here.settled_seqs("A") == [1]
    here.owner.vacuum()
    assert staged_files(here) == set(here.owner.snapshot.files)


def test_killed_while_staging(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that fails in the middle leaves no file; one that is killed leaves some, which nobody takes for rows."""
    here = store()
    here.create("A")
    here.create("B")
    for name in "AB":
        here.publish(name, "x")
    here.commit()
    rows = here.spark.read.format("delta").load(str(here.data / "journal")).toArrow().to_batches()
    with here.sink.lock:
        staging = here.sink.staging(here.sink.progress())
    writes = count()

    def write(storage: LocalStorage, blob: Blob) -> None:
        if next(writes):
            raise StorageFull(blob.name, "no space")
        one(storage, blob)

    one = LocalStorage.write
    with monkeypatch.context() as full:
        full.setattr(LocalStorage, "write", write)
        with pytest.raises(StorageFull):
            list(staging(iter(rows)))
    assert next(writes) > 1
    assert not list((here.data / "messages").rglob("part-*"))
    list(staging(iter(rows)))
    assert list((here.data / "messages").rglob("part-*"))
    here.settle(fresh=True)
    assert (here.settled_seqs("A"), here.settled_seqs("B")) == ([1], [1])
    assert staged_files(here) > set(here.owner.snapshot.files)
    here.owner.vacuum()
    assert staged_files(here) == set(here.owner.snapshot.files)


def test_a_dummy_batch_leaves_nothing_behind(store: MakeStore) -> None:
    """The session is warmed up before there is a batch; the sink may be sent to another process meanwhile."""
    here = store()
    sent = pickle.loads(pickle.dumps(here.sink))
    assert warm_up(here.spark) == ROWS
    assert (sent.location, sent.batches) == (str(here.data / "messages"), 0)
    assert not (here.data / "messages").exists()
    here.create("A")
    here.publish("A", "x")
    here.sink = sent
    journal = here.source
    assert journal.is_settled({})
    here.settle()
    assert not journal.is_settled({})
    assert journal.is_settled(here.owner.note.watermarks)
    assert here.settled_seqs("A") == [1]


def test_replayed_rows_are_sifted(store: MakeStore) -> None:
    """A batch that brings settled rows again, and new ones twice, adds each new row once."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    here.publish("A", "y")
    here.publish("A", "z")
    here.commit()
    here.sink(here.files().unionByName(here.files()), 7)
    assert here.settled_seqs("A") == [1, 2, 3]


def test_a_repeated_message_id_is_dropped(store: MakeStore) -> None:
    """What the gateway should have refused as a duplicate does not reach the table, over batches and restarts."""
    here = store()
    here.create("A", duplicate_window=60 * 1_000_000_000)
    for msg_id in ("a", "b", "a"):
        here.publish("A", "x", msg_id=msg_id)
    here.settle()
    assert here.settled_seqs("A") == [1, 2]
    here.publish("A", "x", msg_id="b")
    here.publish("A", "x", msg_id="c")
    here.settle(fresh=True)
    assert here.settled_seqs("A") == [1, 2, 5]
    here.tick(61 * 1_000_000_000)
    here.publish("A", "x", msg_id="b")
    here.settle()
    assert here.settled_seqs("A") == [1, 2, 5, 6]


def test_many_subjects_share_buckets(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream with many subjects never has a folder for each, nor does one with subjects that name no folder."""
    monkeypatch.setattr(upkeep_choice, "SMALL_FILES_MIN", 1)
    here = store()
    here.create("KV")
    here.create("ODD%ü=1")
    for number in range(40):
        here.publish("KV", f"key{number}")
    for token in ("a/b", "p%20q", "ü", "x" * 200):
        here.publish("ODD%ü=1", token, token.encode())
    here.settle()
    assert here.folders() == set(product(("KV", "ODD%ü=1"), ("$events", "$recent")))
    with here.sink.lock:
        here.maintenance.compact(here.sink.progress())
    folders = here.folders()
    assert len([folder for folder in folders if folder[0] == "KV"]) <= 17
    assert all(name == "$events" or len(name) == 3 for _, name in folders)
    odd = DeltaTable(str(here.data / "messages")).to_pyarrow_table(partitions=[("stream", "=", "ODD%ü=1")])
    assert sorted(odd["subject"].to_pylist())[1:] == sorted(f"ODD%ü=1.{t}" for t in ("a/b", "p%20q", "ü", "x" * 200))


def test_a_stream_name_too_long_for_a_folder_settles(store: MakeStore) -> None:
    """The longest legal stream name does not stop settling."""
    here = store()
    name = "S" * 255
    here.create(name)
    here.publish(name, "x")
    here.settle()
    assert here.settled_seqs(name) == [1]


def test_table_is_made_to_be_read_by_delta_rs(store: MakeStore) -> None:
    """Reader 1, writer 2, no deletion vectors, no statistics of payloads; an older engine reads it."""
    here = store()
    here.create("A")
    here.publish("A", "x", b"secret")
    here.settle()
    table = DeltaTable(str(here.data / "messages"))
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert table.metadata().configuration["delta.enableDeletionVectors"] == "false"
    assert not any("max.data" in name for name in table.get_add_actions(flatten=True).schema.names)
    assert table.to_pyarrow_table().num_rows == 2


def test_batches_of_the_journal_are_bounded_and_in_order(store: MakeStore) -> None:
    """Each commit is in one batch, none has more files or bytes than it may, and damage is named, not read."""
    here = store()
    here.create("A")
    for _ in range(5):
        here.publish("A", "x")
        here.commit()
    path = here.data / "journal"
    bounds = {"path": str(path), "secret_storage": "{}", "bytes_max": str(1 << 30), "files_max": "2"}
    found = [batch for batch, _ in _batches(bounds | {"after": "-1"})]
    assert found == [[0, 1, 2], [3, 4], [5]]
    assert len(list(_batches(bounds | {"after": "-1", "bytes_max": "1"}))) == 5
    newest = max(path.glob("*.parquet"))
    (last,) = [after for batch, after in _batches(bounds | {"after": "-1"}) if 5 in batch]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(DamagedData, match=newest.name):
        list(_batches(bounds | {"after": str(last)}))


def _batches(options: dict[str, str]) -> Iterator[tuple[list[int], int]]:
    """Sequences of each batch, and the version behind which it begins."""
    reader = JournalStreamReader(options)
    begin = reader.initialOffset()
    while (end := reader.latestOffset()) != begin:
        [partition] = pickle.loads(pickle.dumps(reader)).partitions(begin, end)
        read = JournalRows(options["path"], {})
        rows = [seq for batch in read(reader.read(partition)) for seq in batch["seq"].to_pylist()]
        yield rows, begin["version"]
        begin = end


def test_what_waits_is_settled_before_a_query(store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that has just started, or taken over, settles a batch at once, no larger than a query's."""
    here = store()
    here.create("A")
    for _ in range(3):
        here.publish("A", "s")
        here.commit()
    monkeypatch.setattr(journal_source, "SETTLE_FILES_PER_BATCH", 2)
    job = SettleJob(here.spark, data_location(str(here.data)), Settings())
    for settled in ([1, 2], [1, 2, 3], [1, 2, 3]):
        job.settle_first()
        assert here.settled_seqs("A") == settled
    assert [note.op for note in notes(here)].count(Op.APPEND) == 2


def test_settling_begins_at_the_first_unsettled_commit(store: MakeStore) -> None:
    """Watermarks tell what is settled; also of a journal that was truncated."""
    here = store()
    here.create("A")
    versions = []
    for _ in range(4):
        here.publish("A", "x")
        versions.append(here.commit())
    journal = here.source
    all_settled = marks_of(here.catalog)
    for seq, version in enumerate(versions[:-1], 1):
        marks = {"A": all_settled["A"]._replace(seq=seq)}
        assert journal.is_settled(marks, up_to=version)
        assert not journal.is_settled(marks, up_to=version + 1)
    assert journal.is_settled(all_settled)
    here.settle()
    assert here.truncate()
    assert journal.is_settled(all_settled)
    here.publish("A", "x")
    here.commit()
    here.settle_by_query()
    assert here.settled_seqs("A") == [1, 2, 3, 4, 5]


def test_a_lost_table_is_settled_anew(store: MakeStore, spark: object) -> None:
    """As long as the journal has not been truncated, ``messages`` can be lost as a whole."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    shutil.rmtree(here.data / "messages")
    here.settle(fresh=True)
    assert here.settled_seqs("A") == [1]


def test_spark_leaves_no_checksum_files(store: MakeStore) -> None:
    """Nothing beside a file is needed to read it."""
    here = store()
    here.create("S")
    here.publish("S", "a")
    here.settle()
    here.maintenance.run_due()
    assert list((here.data / "messages").rglob("*.parquet"))
    assert not list(here.data.rglob(".*.crc"))


def test_what_was_torn_is_settled_again(store: MakeStore) -> None:
    """The end of the log is empty after a power cut: the next start sets it aside and settles the same rows again."""
    here = store()
    here.create("S")
    for number in range(3):
        here.publish("S", f"s{number}")
        here.settle()
    newest = here.owner.snapshot.version
    os.truncate(here.data / "messages" / "_delta_log" / f"{newest:020d}.json", 0)
    assert repair_messages(here.data, now_ns=1).version == newest - 1
    here.settle(fresh=True)
    assert here.owner.snapshot.version > newest
    assert here.settled_seqs("S") == [1, 2, 3]
