"""Long reads in parts, held against a model that replays the rows one by one."""

import pickle
import random
from pathlib import Path

import pytest

from conf.data_location import DataLocation, data_location
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_scan import scan
from delta_store.reading.message_slice import MessagesLost, StreamSlice, divided
from delta_store.reading.settled_files import MessageFiles
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.streams.removal_rows import read_removal
from delta_store.values.as_of import AsOf
from delta_store.values.records import Kind, Row
from delta_store.values.subjects import SubjectFilter
from tests.tables import History, Tables, grown, live_before, live_sequences

NAMES = ("seq", "subject", "ts_ns", "headers", "data")


def rows_in(data: DataLocation, planned: StreamSlice) -> list[tuple[int, bytes]]:
    """Sequence and payload of each message of a slice, its parts read as if by another process."""
    parts = pickle.loads(pickle.dumps(planned.parts))
    tables = [table for part in parts for table in scan(data, part, NAMES)]
    return sorted(
        pair for table in tables for pair in zip(table["seq"].to_pylist(), table["data"].to_pylist(), strict=True)
    )


def content(rows: list[Row], seqs: set[int]) -> list[tuple[int, bytes]]:
    """The same of the rows of a history."""
    return sorted((row.seq, row.data) for row in rows if row.kind == Kind.MESSAGE and row.seq in seqs)


def erased(rows: list[Row]) -> set[int]:
    """The sequences that were erased at any time."""
    removals = [read_removal(row.data)[0] for row in rows if row.kind == Kind.REMOVE]
    ranges = [one for removal in removals if removal.erase for one in removal.ranges]
    return {seq for low, high in ranges for seq in range(low, high + 1)}


@pytest.mark.parametrize("seed", range(4))
def test_a_live_slice_is_the_true_past(tmp_path: Path, seed: int) -> None:
    """At each sequence and time a slice holds the messages that a replay gives, settled, cleaned up or not yet."""
    tables, history = grown(tmp_path, seed)
    data = data_location(str(tables.data))
    planner = SlicePlanner.of(data)
    for point in random.Random(seed).sample(range(1, history.seq + 1), 12):
        planned = planner.live("S", MessageBounds(), AsOf(seq=point))
        assert rows_in(data, planned) == content(history.rows, live_sequences(history.rows, point)), point
    newest = planner.live("S", MessageBounds())
    assert rows_in(data, newest) == content(history.rows, live_sequences(history.rows))
    assert newest.last_seq == history.seq
    for row in random.Random(seed).sample(history.rows, 5):
        past = planner.live("S", MessageBounds(), AsOf(before_ns=row.ts_ns))
        assert rows_in(data, past) == content(history.rows, live_before(history.rows, row.ts_ns)), row


@pytest.mark.parametrize("seed", range(4))
def test_bounds_choose_among_the_live_messages(tmp_path: Path, seed: int) -> None:
    """Sequences, times, filters, subjects and a prefix choose the same messages as row by row."""
    tables, history = grown(tmp_path, seed)
    data, dice = data_location(str(tables.data)), random.Random(seed)
    planner = SlicePlanner.of(data)
    live = live_sequences(history.rows)
    messages = [row for row in history.rows if row.kind == Kind.MESSAGE]
    for _ in range(15):
        low, high = sorted(dice.choices(range(1, history.seq + 1), k=2))
        early, late = sorted(row.ts_ns for row in dice.choices(messages, k=2))
        bounds = MessageBounds(
            seqs=dice.choice([(low, high), (1, 1 << 62)]),
            times=dice.choice([(early, late), (0, 1 << 62)]),
            filters=dice.choice([(">",), ("s.1",), ("s.*", "t"), ("s.0", "s.3"), ("none",)]),
            subjects=dice.choice([None, frozenset(("s.1", "s.2"))]),
            prefix=dice.choice(["", "s.", "s.2", "t"]),
        )
        wanted = {
            row.seq
            for row in messages
            if row.seq in live
            and bounds.seqs[0] <= row.seq <= bounds.seqs[1]
            and bounds.times[0] <= row.ts_ns <= bounds.times[1]
            and SubjectFilter(bounds.filters).matches(row.subject)
            and (bounds.subjects is None or row.subject in bounds.subjects)
            and row.subject.startswith(bounds.prefix)
        }
        assert rows_in(data, planner.live("S", bounds)) == content(history.rows, wanted), bounds


@pytest.mark.parametrize("seed", range(4))
def test_the_log_has_all_that_the_tables_hold(tmp_path: Path, seed: int) -> None:
    """Removed messages that no cleanup has reached are in the log; erased ones never; its live part has fewer."""
    tables, history = grown(tmp_path, seed)
    data = data_location(str(tables.data))
    planner = SlicePlanner.of(data)
    mark = tables.marks.get("S")
    messages = [row for row in history.rows if row.kind == Kind.MESSAGE]
    above = {row.seq for row in messages if mark is None or row.position > mark.position}
    held = (above | {row.seq for row in messages if ("S", row.position) in tables.kept}) - erased(history.rows)
    for low, high in ((1, history.seq), (5, 15)):
        bounds = MessageBounds(seqs=(low, high))
        wanted = {seq for seq in held if low <= seq <= high}
        planned = planner.log("S", history.stream_id, bounds, complete=False)
        assert rows_in(data, planned) == content(history.rows, wanted)
        live = rows_in(data, planner.live_in_log("S", history.stream_id, bounds))
        assert set(live) <= set(content(history.rows, wanted))
    whole = MessageBounds(seqs=(1, history.seq))
    assert rows_in(data, planner.live_in_log("S", history.stream_id, whole)) == content(
        history.rows, live_sequences(history.rows)
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_range_is_divided_alike_however_it_is_stored(tmp_path: Path, seed: int) -> None:
    """Each division has the messages of its sequences, and is there when it has none."""
    tables, history = grown(tmp_path, seed)
    data = data_location(str(tables.data))
    planner = SlicePlanner.of(data)
    after, last = 3, history.seq - 1
    for bounds in (MessageBounds(seqs=(after + 1, last)), MessageBounds(seqs=(after + 1, last), filters=("s.1",))):
        for planned in (
            planner.log("S", history.stream_id, bounds, complete=False),
            planner.live_in_log("S", history.stream_id, bounds),
        ):
            divisions = divided(planned.parts, after, last, 7)
            assert len(divisions) == -(-(last - after) // 7)
            whole = rows_in(data, planned)
            for number, parts in enumerate(divisions):
                first = after + 1 + 7 * number
                wanted = [row for row in whole if first <= row[0] < first + 7]
                assert rows_in(data, planned._replace(parts=list(parts))) == wanted


def test_a_part_outlives_the_journal_files_that_it_names(tmp_path: Path) -> None:
    """Rows that are settled, and whose files are truncated, between planning and reading are read where they are."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create()])
    for _ in range(6):
        tables.commit([history.publish(f"s.{at % 3}") for at in range(5)])
    data = data_location(str(tables.data))
    planner = SlicePlanner.of(data)
    planned = planner.live("S", MessageBounds(filters=("s.1", "s.2")))
    tables.settle(tables.rows[:-8])
    tables.truncate()
    wanted = {row.seq for row in history.rows if row.subject in ("s.1", "s.2")}
    assert rows_in(data, planned) == content(history.rows, wanted)


def test_what_limits_have_cleaned_up_is_missed(tmp_path: Path) -> None:
    """A range that begins below the stream's first sequence is refused once rows of it have left the tables."""
    history, tables = History(max_msgs=4), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish("s.0") for _ in range(10))])
    planner = SlicePlanner.of(data_location(str(tables.data)))
    whole = MessageBounds(seqs=(3, 10))
    for step in (lambda: None, tables.settle):
        step()
        planner.log("S", history.stream_id, whole, complete=True)
    tables.apply_limits()
    with pytest.raises(MessagesLost, match=r"from sequence 3 on may have been missed: .* the stream begins with 7"):
        planner.log("S", history.stream_id, whole, complete=True)
    assert planner.begins("S") == (history.stream_id, 7)
    planner.log("S", history.stream_id, MessageBounds(seqs=(7, 10)), complete=True)
    with pytest.raises(MessagesLost, match="deleted and created anew"):
        planner.log("S", history.stream_id - 1, whole, complete=False)
    with pytest.raises(MessagesLost, match="has been deleted"):
        planner.log("T", 1, whole, complete=False)


def test_ends_starts_and_names(tmp_path: Path) -> None:
    """The end of each stream comes from the logs, the start of a time from the rows, a filter's streams by subjects."""
    history, other, tables = History(), History(stream="OTHER"), Tables(tmp_path)
    tables.commit([history.create(), other.create(), *(history.publish("s.0") for _ in range(10))])
    planner = SlicePlanner.of(data_location(str(tables.data)))
    for step in (lambda: None, tables.settle, tables.truncate):
        step()
        assert planner.ends() == {"S": (history.stream_id, 10), "OTHER": (other.stream_id, 0)}
        assert [planner.begins("S", row.ts_ns)[1] for row in history.rows[1:]] == list(range(1, 11))
        assert planner.begins("S", history.now_ns + 1) == (history.stream_id, 11)
        assert planner.begins("S") == (history.stream_id, 1)
        assert planner.streams(["s.1"]) == ["OTHER", "S"]
        assert planner.streams(["t.>"]) == []


def test_pruned_files_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject, a few sequences or a time open the files that may hold them, and no other."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create()])
    for number in range(8):
        tables.commit([history.publish(f"s.{number % 4}") for _ in range(30)])
        tables.settle(tables.rows if number < 6 else tables.rows[:181])
    data = data_location(str(tables.data))
    planner = SlicePlanner.of(data)
    opened: list[str] = []
    monkeypatch.setattr(
        MessageFiles,
        "_open",
        lambda self, path, *a, real=MessageFiles._open, **k: (opened.append(path), real(self, path, *a, **k))[1],
    )
    whole = planner.live("S", MessageBounds())
    every = sum(len(part.files) for part in whole.parts)
    seconds = [row.ts_ns for row in history.rows if row.seq == 100]
    for bounds in (
        MessageBounds(filters=("s.1",)),
        MessageBounds(seqs=(100, 100)),
        MessageBounds(times=(seconds[0], seconds[0])),
        MessageBounds(subjects=frozenset(("s.2",))),
    ):
        planned = planner.live("S", bounds)
        opened.clear()
        assert rows_in(data, planned)
        assert 0 < len(opened) == sum(len(part.files) for part in planned.parts) <= every // 2, bounds
