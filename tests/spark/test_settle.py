"""The settle job against a real journal: nothing twice, nothing lost, whatever is killed or lost between."""

import json
import os
import shutil
from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from delta_store.log.log_repair import repair_messages
from delta_store.settling.journal_start import starting_version
from delta_store.settling.messages_table import MessagesTable, PositionLost
from delta_store.settling.settle_batch import DamagedRows
from delta_store.values.records import RowColumns, checksum, stored_size
from delta_store.values.watermark import CommitNote, JournalGap, Op
from tests.groups import reader
from tests.spark.store import Store
from tests.tables import marks_of

MakeStore = Callable[..., Store]


def notes(store: Store) -> list[CommitNote]:
    """The note of each commit to ``messages``, oldest first."""
    log = sorted((store.data / "messages" / "_delta_log").glob("*.json"))
    lines = [line for file in log for line in file.read_text().splitlines()]
    infos = [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
    return [CommitNote.from_json(info["userMetadata"]) for info in infos]


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
        assert row["subject_partition"] == row["subject"]
    assert rows[0]["subject_partition"] == "$events"
    [_, append] = notes(here)
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
    with pytest.raises(Exception, match="JournalGap"):
        here.settle()
    assert here.settled_seqs("A") == [1]
    assert JournalGap("A", 1, 3).settled == 1


def test_damaged_rows_stop_settling(store: MakeStore) -> None:
    """A row whose checksum does not hold is reported, not carried on."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    before = here.table.version()
    batch = here.spark.read.format("delta").load(str(here.data / "journal")).where("kind = 'message'")
    damaged = batch.selectExpr("* except (seq, crc)", "2L as seq", "crc + 1 as crc").select(batch.columns)
    with pytest.raises(DamagedRows):
        here.sink(damaged, 0)
    assert here.table.version() == before


def test_a_second_committer_is_noticed(store: MakeStore) -> None:
    """When someone else has settled the batch, the job reads its position again instead of trusting its own."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    with here.sink.lock:
        stale = here.sink.progress()
    other = Store.__new__(Store)
    other.__dict__ = here.__dict__ | {"sink": None}
    here.publish("A", "x")
    other.settle(fresh=True)
    rows = here.table.rows().limit(1)
    with pytest.raises(PositionLost):
        here.table.append(rows, CommitNote(Op.APPEND, stale.watermarks, stale.note.batch + 1))
    assert here.settled_seqs("A") == [1, 2]


@pytest.mark.parametrize("landed", [False, True])
def test_killed_around_an_append(store: MakeStore, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    """Whether or not an append landed before the job failed, the next start adds each row once."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    append = MessagesTable.append

    def failing(table: MessagesTable, rows: DataFrame, note: CommitNote) -> None:
        if landed:
            append(table, rows, note)
        raise OSError("the answer is lost")

    with monkeypatch.context() as broken:
        broken.setattr(MessagesTable, "append", failing)
        with pytest.raises(Exception, match="the answer is lost"):
            here.settle()
    here.settle()
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
    batch = here.spark.read.format("delta").load(str(here.data / "journal"))
    here.sink(batch.unionByName(batch), 7)
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


def test_many_subjects_share_buckets(store: MakeStore) -> None:
    """A stream with many subjects never has a folder for each, nor does one with subjects that name no folder."""
    here = store()
    here.create("KV")
    here.create("ODD%ü=1")
    for number in range(40):
        here.publish("KV", f"key{number}")
    for token in ("a/b", "p%20q", "ü", "x" * 200):
        here.publish("ODD%ü=1", token, token.encode())
    here.settle()
    folders = {(one.stream, one.subject_partition) for one in here.table.folders()}
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


def test_starting_version_is_the_first_unsettled_one(store: MakeStore) -> None:
    """Commits of settled rows are passed over; commits without rows do not mislead the search."""
    here = store()
    here.create("A")
    versions = []
    for _ in range(5):
        here.publish("A", "x")
        versions.append(here.commit())
    log = reader(here.data / "journal").log
    entries = {version: log.entry(version) for version in log.listed().versions}
    for seq, version in enumerate(versions):
        marks = {"A": marks_of(here.catalog)["A"]._replace(seq=seq)} if seq else {}
        assert starting_version(entries.__getitem__, 0, max(entries), marks) == (version if seq else versions[0])
    everything = marks_of(here.catalog)
    assert starting_version(entries.__getitem__, 0, max(entries), everything) == max(entries)
    assert starting_version(entries.__getitem__, 3, max(entries), {}) is None


def test_a_lost_table_is_settled_anew(store: MakeStore, spark: object) -> None:
    """As long as the journal has not been truncated, ``messages`` can be lost as a whole."""
    here = store()
    here.create("A")
    here.publish("A", "x")
    here.settle()
    shutil.rmtree(here.data / "messages")
    here.table = MessagesTable(here.spark, str(here.data / "messages"), horizon_seconds=60)
    here.settle(fresh=True)
    assert here.settled_seqs("A") == [1]


def test_spark_leaves_no_checksum_files_and_commits_no_version_twice(store: MakeStore) -> None:
    """Nothing beside a file is needed to read it; an entry that is there already is refused, not replaced."""
    here = store()
    here.create("S")
    here.publish("S", "a")
    here.settle()
    here.maintenance.run_due()
    assert list((here.data / "messages").rglob("*.parquet"))
    assert not list(here.data.rglob(".*.crc"))
    log, jvm = here.table._log(), here.spark._jvm
    entry = here.data / "messages" / "_delta_log" / "00000000000000000001.json"
    before = entry.read_bytes()
    lines = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList(["{}"])).iterator()
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        log.store().write(jvm.org.apache.hadoop.fs.Path(str(entry)), lines, False, log.newDeltaHadoopConf())
    assert entry.read_bytes() == before


def test_what_was_torn_is_settled_again(store: MakeStore) -> None:
    """The end of the log is empty after a power cut: the next start sets it aside and settles the same rows again."""
    here = store()
    here.create("S")
    for number in range(3):
        here.publish("S", f"s{number}")
        here.settle()
    newest = here.table.version()
    os.truncate(here.data / "messages" / "_delta_log" / f"{newest:020d}.json", 0)
    assert repair_messages(here.data, now_ns=1).version == newest - 1
    here.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    here.settle(fresh=True)
    assert here.table.version() == newest
    assert here.settled_seqs("S") == [1, 2, 3]
