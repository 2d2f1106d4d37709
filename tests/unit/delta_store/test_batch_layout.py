"""A batch as its writers see it: its summary against rows counted one by one, and the files it goes into."""

import random
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.limits import SUBJECT_BUCKETS, SUBJECT_PARTITIONS_EXACT_MAX
from delta_store.entries.batch_layout import in_order, laid_out, newest_of_consumers, of_consumers, summarised, without
from delta_store.entries.batch_report import BatchReport, BatchRun, Told, merged
from delta_store.entries.beside_entry import BesideFile
from delta_store.entries.staged_file import StagedFile
from delta_store.entries.typed_files import TypedFiles
from delta_store.values.folder_layout import FolderLayout, subject_folder, subject_hash
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import MESSAGES_SCHEMA
from delta_store.values.watermark import Run

COLUMNS = pa.schema([*MESSAGES_SCHEMA.remove_metadata(), ("whole", pa.bool_()), ("id_hash", pa.int64())])
CONSUMERS = ("consumer", "consumer_state", "consumer_delete", "source_state")
CONFIG = b'{"config":{"name":"A","duplicate_window":%d%s}}'
MORE = b',"mirror":{"name":"O"},"metadata":{"silt.history":"1s"}'


def table(*rows: dict[str, Any]) -> pa.Table:
    """Rows with what a test does not care about filled in."""
    filled = []
    for given_values in rows:
        row = {"stream": "A", "stream_id": 1, "seq": 1, "event_no": 1, "kind": "message", "subject": "a.b", "ts_ns": 0}
        row |= {"msg_id": None, "first_seq": 1, "evicts": 0, "headers": None, "data": b"", "crc": 0, "size": 1}
        row |= {"whole": True, "id_hash": None} | given_values
        where = "$recent" if row["kind"] == "message" else "$consumers" if row["kind"] in CONSUMERS else "$events"
        filled.append({"subject_partition": where} | row)
    return pa.Table.from_pylist(filled, schema=COLUMNS)


def test_a_summary_counts_rows_and_tells_both_ends() -> None:
    """By kind, with damage, ids, and the settings in STREAM rows."""
    rows = table(
        {"seq": 2, "event_no": 2, "kind": "remove", "subject": "", "first_seq": 3, "data": b"{}"},
        {
            "seq": 0,
            "kind": "stream",
            "subject": "",
            "first_seq": 0,
            "data": CONFIG % (5, MORE),
        },
        {"seq": 2, "evicts": 1, "subject": "a.c", "first_seq": 2, "whole": False},
        {"seq": 1, "msg_id": "m", "id_hash": -7, "ts_ns": 3},
        {"seq": 2, "event_no": 3, "kind": "consumer", "subject": "c", "first_seq": 3, "data": b"{}"},
        {"stream": "B", "stream_id": 9, "seq": 4, "event_no": 6, "kind": "stream_delete", "first_seq": 5},
    )
    report = summarised(in_order(rows))
    hashes = tuple(sorted((subject_hash("a.b"), subject_hash("a.c"))))
    assert set(report.runs) == {
        BatchRun(Run("A", 1, 2, 1, 2, (0, 1), (2, 3), 3), 3, 2, 1, hashes),
        BatchRun(Run("B", 9, 0, 0, 0, (4, 6), (4, 6), 5), 1, 0, 0, ()),
    }
    assert report.told == (Told(1, 0, 1, "A", 5, True, "", 10**9),)
    assert (report.hashes.tolist(), report.times.tolist(), report.rows) == ([-7], [3], 6)
    assert all(run.subjects == () for run in summarised(in_order(rows), {"A", "B"}).runs)


@given(st.randoms(use_true_random=False), st.integers(1, 60), st.integers(1, 4))
def test_parts_of_a_batch_add_up(dice: random.Random, count: int, tasks: int) -> None:
    """However its rows are shuffled and divided among tasks, the reports say of a batch what one of all would."""
    kinds = ("message", "message", "message", "remove", "consumer_state", "stream_delete")
    rows = [
        {
            "stream": dice.choice("AB"), "stream_id": dice.choice((1, 2)), "seq": number // 2, "event_no": number,
            "kind": dice.choice(kinds), "subject": dice.choice(("x", "y", "z")), "first_seq": number,
            "evicts": dice.choice((0, 0, 5)), "whole": dice.random() < 0.9, "id_hash": dice.choice((None, number)),
        }
        for number in range(count)
    ]  # fmt: skip
    dice.shuffle(rows)
    parts = [part for number in range(tasks) if (part := rows[number::tasks])]
    found = merged([summarised(in_order(table(*part))) for part in parts])
    assert {_counted(run) for run in found.runs} == set(_by_hand(rows))
    assert sorted(found.hashes.tolist()) == sorted(row["id_hash"] for row in rows if row["id_hash"] is not None)
    assert found.rows == count


def _counted(one: BatchRun) -> tuple[Any, ...]:
    return (one.run, one.events, one.removals, one.damaged, frozenset(one.subjects))


def _by_hand(rows: list[dict[str, Any]]) -> Iterable[tuple[Any, ...]]:
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["stream"], row["stream_id"]

    for of, group in groupby(sorted(rows, key=key), key):
        mine = sorted(group, key=lambda row: (row["seq"], row["event_no"]))
        messages = [row for row in mine if row["kind"] == "message"]
        seqs = [row["seq"] for row in messages]
        first, last = ((row["seq"], row["event_no"]) for row in (mine[0], mine[-1]))
        ends = (min(seqs, default=0), max(seqs, default=0), first, last, mine[-1]["first_seq"])
        removals = sum(row["evicts"] > 0 or row["kind"] == "remove" for row in mine)
        subjects = frozenset(subject_hash(row["subject"]) for row in messages)
        damaged = sum(not row["whole"] for row in mine)
        yield Run(*of, len(messages), *ends), len(mine) - len(messages), removals, damaged, subjects


def test_a_report_survives_its_way_to_the_driver() -> None:
    """As one Arrow row."""
    told = summarised(in_order(table({"kind": "stream", "data": CONFIG % (7, b"")}, {"seq": 2, "id_hash": 1 << 62})))
    file = BesideFile("d/p", 5, 2, 1 << 31, "{}", (("d", "2026-01-02"),))
    typed = TypedFiles("A", (file,), (file._replace(partition=()),), ("a.b",))
    report = told._replace(files=(StagedFile("p/ä", "A", "$recent", 5, 2, 1 << 31, "{}"),), typed=(typed,))
    again = BatchReport.from_row(*report.as_arrow().to_pylist()[0].values())
    assert again[:3] == report[:3]
    assert [column.tolist() for column in again[3:5]] == [column.tolist() for column in report[3:5]]
    assert again.typed == report.typed
    assert merged([BatchReport()]).rows == 0
    assert report.added == {"A": 2}


def test_recent_messages_wait_in_one_file_and_many_are_spread() -> None:
    """A few rows of a stream: one file in order of sequence. Many: a file for each folder, by subject and sequence."""
    rows = in_order(table(*({"seq": seq, "subject": f"a.{seq * 3 % 7}"} for seq in range(20, 0, -1))))
    [file] = laid_out(rows, set(), spread_rows_min=21)
    assert (file.stream, file.subject_partition, file.rows["seq"].to_pylist()) == ("A", "$recent", list(range(1, 21)))
    spread = list(laid_out(rows, set(), spread_rows_min=20))
    assert [one.subject_partition for one in spread] == sorted({f"a.{number}" for number in range(7)})
    shared = list(laid_out(rows, {"A"}, spread_rows_min=1))
    assert all(one.subject_partition == subject_folder("a.1", exact=False) for one in shared if "a.1" in str(one.rows))
    for one in (*spread, *shared):
        keys = list(zip(one.rows["subject"].to_pylist(), one.rows["seq"].to_pylist(), strict=True))
        assert keys == sorted(keys)
    for files in (spread, shared):
        assert sorted(np.concatenate([one.rows["seq"].to_numpy() for one in files])) == list(range(1, 21))
    many = table(*({"seq": seq, "subject": f"a.{seq}"} for seq in range(SUBJECT_PARTITIONS_EXACT_MAX + 1)))
    assert all(one.subject_partition.startswith("b") for one in laid_out(many, set(), spread_rows_min=1))


def test_kinds_and_streams_never_share_a_file() -> None:
    """Events, consumers, messages and streams apart; a folder's own rows stay in it, by subject."""
    rows = in_order(
        table(
            {"stream": "B", "seq": 2},
            {"seq": 3, "subject": "x", "subject_partition": "b01"},
            {"seq": 4, "subject": "w", "subject_partition": "b01"},
            {"seq": 4, "event_no": 2, "kind": "remove"},
            {"seq": 4, "event_no": 3, "kind": "consumer", "subject": "c"},
        )
    )
    files = {
        (one.stream, one.subject_partition): one.rows["seq"].to_pylist()
        for one in laid_out(rows, (), spread_rows_min=9)
    }
    assert files == {("A", "b01"): [4, 3], ("A", "$events"): [4], ("A", "$consumers"): [4], ("B", "$recent"): [2]}
    assert [part.num_rows for part in of_consumers(rows)] == [1, 4]


def test_of_consumers_the_newest_count() -> None:
    """Of one and the same consumer: streams and incarnations apart."""
    states = [{"seq": seq, "kind": "consumer_state", "subject": "c"} for seq in range(3)]
    rows = in_order(table(*states, {"seq": 9, "stream": "B", "kind": "source_state"}, states[0] | {"stream_id": 2}))
    assert sorted(newest_of_consumers(rows)["seq"].to_pylist()) == [0, 2, 9]
    kept = newest_of_consumers(in_order(table(*states)))
    assert newest_of_consumers(kept) is kept


def test_rows_leave_a_file_only_if_they_are_there() -> None:
    """Each once; a rewrite that would not delete what it should is damage."""
    rows = table({"seq": 1}, {"seq": 2}, {"seq": 2, "event_no": 2, "kind": "remove"})
    position = {"stream_id": 1, "seq": 2, "event_no": 1}
    assert without(rows, [position], file="f")["event_no"].to_pylist() == [1, 2]
    assert without(rows, [], file="f") is rows
    with pytest.raises(DamagedData, match="f"):
        without(rows, [position, position | {"seq": 7}], file="f")


@pytest.mark.parametrize("subject", ["$events", "$recent", "$consumers", "a/b", "p%20q", "ü", "x" * 129])
def test_odd_subjects_share_buckets(subject: str) -> None:
    """What names no folder, or names one of ours."""
    assert subject_folder(subject, exact=True) == f"b{crc32(subject.encode()) % SUBJECT_BUCKETS:02d}"
    assert subject_folder("a.b", exact=True) == "a.b"


def test_a_layout_is_rebuilt_from_the_folders() -> None:
    """A stream with buckets keeps them; one turns to buckets with too many subjects."""
    layout = FolderLayout({"FEW": ["a", "b", "$recent"], "MANY": ["$events", "b03"]})
    layout.admit("NEW", range(SUBJECT_PARTITIONS_EXACT_MAX + 1))
    layout.admit("FEW", range(SUBJECT_PARTITIONS_EXACT_MAX - 4))
    assert layout.bucketed == {"MANY", "NEW"}
