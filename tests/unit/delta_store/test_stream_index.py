"""Look-ups that random indexes seldom need: rare subjects over many segments, and edges."""

import numpy as np
import pytest

from delta_store.index.matching import (
    count_matching,
    iter_matching,
    last_by_subject,
    last_per_subject,
    next_matching,
)
from delta_store.index.segments import SEGMENT_SLOTS
from delta_store.index.stream_index import StreamIndex
from delta_store.values.read_errors import TooMany


@pytest.fixture
def long() -> StreamIndex:
    """Fifty segments with a message each; ``rare.a`` stands in the 40th, ``rare.b`` in the 45th."""
    index = StreamIndex()
    for number in range(50):
        subject = {40: "rare.a", 45: "rare.b"}.get(number, f"often.{number % 3}")
        index.append(number * SEGMENT_SLOTS + 1, index.table.intern(subject), ts_ns=number + 1, size=1)
    return index


def test_rare_subjects(long: StreamIndex) -> None:
    """Found from wherever the search starts, before, at and behind them."""
    first, second = 40 * SEGMENT_SLOTS + 1, 45 * SEGMENT_SLOTS + 1
    for subject in ("rare.*", "rare.a"):
        assert [next_matching(long, subject, start) for start in (0, first - 1, first)] == [first] * 3
    assert [next_matching(long, "rare.*", start) for start in (first + 1, second, second + 1)] == [second, second, 0]
    assert next_matching(long, "rare.a", first + 1) == 0
    assert list(iter_matching(long, "rare.>", 0)) == [first, second]
    assert count_matching(long, "rare.>", first + 1) == 1
    assert last_by_subject(long, "rare.*") == second
    assert next_matching(long, "none.*", 0) == next_matching(long, "none", 0) == 0


def test_from_behind_the_first_of_a_subject(long: StreamIndex) -> None:
    """A search for one subject that starts right behind its first message finds its second."""
    assert next_matching(long, "often.0", 1) == 1
    assert next_matching(long, "often.0", 2) == 3 * SEGMENT_SLOTS + 1


def test_last_per_subject(long: StreamIndex) -> None:
    """Each subject once, however many filters match it, and an error rather than a part."""
    wanted = [40 * SEGMENT_SLOTS + 1, 45 * SEGMENT_SLOTS + 1]
    assert last_per_subject(long, ["rare.*", "rare.a", ">", "nothing"])[:2] == wanted
    assert last_per_subject(long, ["rare.*"], wanted[1] - 1, limit=1) == wanted[:1]
    with pytest.raises(TooMany):
        last_per_subject(long, ["rare.*"], limit=1)


def test_sparse_segments_are_packed() -> None:
    """What stays of a million messages takes memory for what stays."""
    index = StreamIndex()
    sids = np.arange(1000) % 7
    for name in range(7):
        index.table.intern(str(name))
    for start in range(1, 1_000_001, 1000):
        seqs = np.arange(start, start + 1000)
        index.append_run(seqs, sids=sids, ts_ns=seqs, sizes=sids)
    full = _bytes(index)
    index.remove_many(np.arange(1, 1_000_001)[np.arange(1_000_000) % 100 != 0])
    assert index.msgs == 10_000
    assert full / index.last_seq < 20
    assert _bytes(index) / index.msgs < 20


def _bytes(index: StreamIndex) -> int:
    columns = ("ts", "size", "sid", "offsets")
    held = (getattr(segment, name) for segment in index.live.segments.values() for name in columns)
    return sum(column.nbytes for column in held if column is not None)
