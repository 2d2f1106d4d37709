"""Liveness at a point, as column arithmetic, equals replaying the rows one by one."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.direct.direct_plan import untouched
from delta_store.index.matching import last_per_subject
from delta_store.index.stream_index import StreamIndex
from delta_store.reading.state_at import END, Columns, EventRow, cut_at, last_of_each, live_at, merged
from delta_store.values.records import Kind
from delta_store.values.subjects import SubjectFilter
from tests.tables import History, live_sequences


def history_of(seed: int, per_subject: int, max_msgs: int, steps: int) -> History:
    """A stream after some random steps."""
    dice = random.Random(seed)
    history = History(per_subject=per_subject, max_msgs=max_msgs)
    history.create()
    for _ in range(steps):
        history.step(dice)
    return history


HISTORIES = st.builds(
    history_of,
    st.integers(0, 1 << 30),
    st.sampled_from([-1, 1, 2, 3]),
    st.sampled_from([-1, 3, 8]),
    st.integers(1, 40),
)


def live_by_columns(history: History, point: int) -> set[int]:
    """The live messages at a point by the code under test."""
    rows = [row for row in history.rows if row.kind == Kind.MESSAGE]
    events = [
        EventRow(row.seq, row.event_no, row.kind, row.first_seq, row.data, row.ts_ns)
        for row in history.rows
        if row.kind != Kind.MESSAGE
    ]
    first_seq = max((row.first_seq for row in rows if row.seq <= point), default=1)
    columns = Columns(np.array([row.seq for row in rows], np.int64), np.array([row.evicts for row in rows], np.int64))
    mask = live_at(columns, cut_at(point, first_seq=first_seq, events=events))
    return set(columns.seq[mask].tolist())


@settings(max_examples=60, deadline=None)
@given(HISTORIES)
def test_live_rows_are_those_of_a_replay(history: History) -> None:
    """At every point, and at the end, the mask holds just what a replay leaves alive."""
    for point in range(1, history.seq + 1):
        assert live_by_columns(history, point) == live_sequences(history.rows, point)
    assert live_by_columns(history, END) == live_sequences(history.rows) == set(history.live)


@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.sampled_from([["s.>"], ["s.1"], ["s.0", "s.2"], ["s.*", "s.4"], ["none"]]))
def test_an_untouched_point_is_answered_by_the_index(history: History, filters: list[str]) -> None:
    """Wherever the cheap check says that nothing was removed, the live index gives the true past."""
    index = StreamIndex()
    rows = {row.seq: row for row in history.rows if row.kind == Kind.MESSAGE}
    for seq, row in rows.items():
        index.append(seq, index.table.intern(row.subject), ts_ns=row.ts_ns, size=1)
    for seq in rows:
        if seq not in history.live:
            index.remove(seq)
    chosen = SubjectFilter(filters)
    for point in range(1, history.seq + 1):
        if untouched(index, point, chosen):
            live = live_sequences(history.rows, point)
            truth = {rows[seq].subject: seq for seq in sorted(live) if chosen.matches(rows[seq].subject)}
            assert last_per_subject(index, chosen, point) == sorted(truth.values())


def test_a_stream_without_removals_is_untouched_everywhere() -> None:
    """The cheap check is not just always no."""
    index = StreamIndex()
    for seq in range(1, 21):
        index.append(seq, index.table.intern(f"s.{seq % 3}"), ts_ns=seq, size=1)
    assert all(untouched(index, point, SubjectFilter(["s.>"])) for point in range(1, 21))
    index.remove(4)
    assert not untouched(index, 4, SubjectFilter(["s.>"]))
    assert not untouched(index, 6, SubjectFilter(["s.>"]))
    assert untouched(index, 9, SubjectFilter(["s.1", "s.2"]))
    assert not untouched(index, 4, SubjectFilter(["s.1"]))
    assert not untouched(index, 9, SubjectFilter(["s.1", "other"]))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=8))
def test_merged_ranges_hold_the_same_sequences(ranges: list[tuple[int, int]]) -> None:
    """Merging loses and adds nothing, and gives disjoint ascending ranges that do not touch."""
    whole = merged(ranges)
    flat = [seq for low, high in whole for seq in range(low, high + 1)]
    assert flat == sorted({seq for low, high in ranges for seq in range(low, high + 1)})
    assert all(one[1] + 1 < other[0] for one, other in pairwise(whole))


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), max_size=40, unique_by=lambda pair: pair[0]))
def test_the_last_of_each_subject(pairs: list[tuple[int, int]]) -> None:
    """One sequence for each subject id, the greatest, ascending."""
    seqs = np.array([pair[0] for pair in pairs], np.int64)
    ids = np.array([pair[1] for pair in pairs], np.int64)
    expected: dict[int, int] = {}
    for seq, subject in pairs:
        expected[subject] = max(expected.get(subject, 0), seq)
    assert last_of_each(seqs, ids).tolist() == sorted(expected.values())


@pytest.mark.parametrize(("erase", "point", "shown"), [(False, 2, {1, 2}), (False, 3, {1, 3}), (True, 2, {1})])
def test_only_erasing_reaches_back(erase: bool, point: int, shown: set[int]) -> None:
    """A removal after message 2 hides it from then on; one that erases hides it from before as well."""
    history = History()
    history.create()
    history.publish("s.1")
    history.publish("s.2")
    history.remove([2], "delete", erase=erase)
    history.publish("s.3")
    assert live_by_columns(history, point) == shown
