"""Log entries as readers take them: what Spark writes, what damage looks like, which files may hold a row."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from delta_store.entries.settled_log import NO_TABLE, parse_entry
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import Op, Watermark

SPARK_ENTRY = (
    r'{"commitInfo":{"timestamp":1763700000000,"userId":"0","operation":"WRITE","operationParameters":{"mode":"Append",'
    r'"partitionBy":"[]"},"readVersion":3,"isolationLevel":"Serializable","isBlindAppend":true,"operationMetrics":{},'
    r'"userMetadata":"{\"op\":\"append\",\"batch\":7,\"watermarks\":{\"S\":{\"id\":17,\"seq\":9,\"event\":2,\"first\":4}}}",'
    r'"engineInfo":"Apache-Spark/4.1.1 Delta-Lake/4.3.1","txnId":"5ab"}}'
    "\n"
    r'{"txn":{"appId":"silt-settle","version":7,"lastUpdated":1763700000000}}'
    "\n"
    r'{"add":{"path":"stream=S/subject_partition=a%252Fb/part-0.parquet","partitionValues":{"stream":"S",'
    r'"subject_partition":"a/b"},"size":10,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":3,'
    r"\"minValues\":{\"stream_id\":17,\"seq\":5,\"subject\":\"a/b\",\"ts_ns\":100},"
    r'\"maxValues\":{\"stream_id\":17,\"seq\":9,\"subject\":\"a/b\",\"ts_ns\":900},\"nullCount\":{}}"}}'
    "\n"
)


def entry(version: int, *actions: dict[str, Any]) -> bytes:
    """A log entry of these actions."""
    return "\n".join(map(json.dumps, actions)).encode()


def add(path: str, stream: str | None, low: int, high: int, subject: tuple[str, str] = ("a", "z")) -> dict[str, Any]:
    """An ``add`` action with bounds of sequence and subject."""
    values = {} if stream is None else {"stream": stream, "subject_partition": "b00"}
    stats = {
        "numRecords": high - low + 1,
        "minValues": {"seq": low, "subject": subject[0]},
        "maxValues": {"seq": high, "subject": subject[1]},
    }
    return {"add": {"path": path, "partitionValues": values, "stats": json.dumps(stats)}}


def test_a_commit_of_spark_is_read() -> None:
    """The note is JSON inside a JSON string; paths are decoded once, bounds come from the statistics."""
    read = parse_entry(4, SPARK_ENTRY.encode(), file="4.json")
    assert read.note is not None
    assert (read.note.op, read.note.watermarks) == (Op.APPEND, {"S": Watermark(17, 9, 2, 4)})
    [file] = read.added
    assert (file.path, file.stream, file.subject_partition) == (
        "stream=S/subject_partition=a%2Fb/part-0.parquet",
        "S",
        "a/b",
    )
    assert (file.rows, file.seq, file.ts_ns, file.subject) == (3, (5, 9), (100, 900), ("a/b", "a/b"))


@pytest.mark.parametrize("text", [b"", b"\n", b"\0\0\0", SPARK_ENTRY.encode()[:-20], b"[]\n5", b'{"add":{}}'])
def test_a_torn_entry_is_damage(text: bytes) -> None:
    """Empty, cut off and NUL-filled entries are reported with the file's name, never passed over."""
    with pytest.raises(DamagedData, match=r"77\.json"):
        parse_entry(77, text, file="77.json")


def test_a_commit_without_a_note_keeps_the_watermarks() -> None:
    """Vacuum and the like say nothing about settling."""
    first = NO_TABLE.after(parse_entry(0, SPARK_ENTRY.encode(), file="0"))
    second = first.after(parse_entry(1, entry(1, {"commitInfo": {"operation": "VACUUM START"}}), file="1"))
    assert second.watermarks == first.watermarks
    other = entry(2, {"commitInfo": {"userMetadata": "someone else's words"}})
    assert second.after(parse_entry(2, other, file="2")).watermarks == first.watermarks


def test_a_snapshot_never_changes() -> None:
    """Files come and go from version to version; a pinned snapshot keeps its own."""
    first = NO_TABLE.after(parse_entry(0, entry(0, add("a", "S", 1, 5), add("b", "S", 6, 9)), file="0"))
    second = first.after(parse_entry(1, entry(1, {"remove": {"path": "a"}}, add("c%20d", "S", 1, 9)), file="1"))
    assert [file.path for file in first.of_stream("S")] == ["a", "b"]
    assert [file.path for file in second.of_stream("S")] == ["b", "c d"]


def test_files_are_chosen_by_their_bounds() -> None:
    """Only files whose sequences and subjects leave room are read; files without statistics always are."""
    actions = [add("a", "S", 1, 5, ("a", "c")), add("b", "S", 6, 9, ("x", "z")), add("c", "T", 1, 9)]
    actions.append({"add": {"path": "unknown", "partitionValues": {"stream": "S", "subject_partition": "b01"}}})
    snapshot = NO_TABLE.after(parse_entry(0, entry(0, *actions), file="0"))

    def holding(*seqs: int, **subjects: Any) -> list[str]:
        return [file.path for file in snapshot.holding("S", np.array(seqs, np.int64), **subjects)]

    assert holding(1) == ["a", "unknown"]
    assert holding(5, 6) == ["a", "b", "unknown"]
    assert holding(10, 11) == ["unknown"]
    assert holding() == []
    assert holding(1, 9, subjects=["y"]) == ["b", "unknown"]
    assert holding(1, 9, subjects=["d"]) == ["unknown"]
    assert snapshot.holding("NONE", np.array([1], np.int64)) == []


def test_journal_files_hold_many_streams() -> None:
    """Without a partition value the stream's own bounds decide."""
    mixed = add("j", None, 1, 5)
    mixed["add"]["stats"] = json.dumps({"minValues": {"stream": "B", "seq": 1}, "maxValues": {"stream": "D", "seq": 5}})
    snapshot = NO_TABLE.after(parse_entry(0, entry(0, mixed), file="0"))
    assert [len(snapshot.of_stream(name)) for name in ("A", "B", "C", "D", "E")] == [0, 1, 1, 1, 0]


def test_threads_share_a_fresh_snapshot() -> None:
    """Whoever asks first and whoever asks meanwhile: each finds every stream's files."""
    names = [f"S{number}" for number in range(250)]
    whole = parse_entry(0, entry(0, *(add(name, name, 1, 5) for name in names)), file="0")
    wanted = np.array([3], np.int64)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(20):
                snapshot = NO_TABLE.after(whole)
                parts = [names[start:] + names[:start] for start in (0, 60, 120, 180)]
                found = threads.map(lambda part, one=snapshot: [one.holding(name, wanted) for name in part], parts)
                assert all(len(files) == 1 for files_of_all in found for files in files_of_all)
    finally:
        sys.setswitchinterval(before)
