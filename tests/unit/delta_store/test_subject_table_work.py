"""What a filter costs that is asked of a stream with very many subjects."""

import pytest

from delta_store.index.matching import count_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.values.subjects import SubjectFilter
from tests.operations import growth


def _filled(subjects: int) -> StreamIndex:
    index = StreamIndex()
    for number in range(subjects):
        index.append(number + 1, index.table.intern(f"a.{number % 1000}.{number}"), ts_ns=number + 1, size=10)
    return index


@pytest.mark.parametrize("shape", ["a.{}.>", "a.{}.*"])
def test_many_filters_over_many_subjects(shape: str) -> None:
    """Sixteen times as many subjects are not sixteen times the work for filters that begin with plain text."""
    indexes = {count: _filled(count) for count in (1_000, 16_000)}

    def ask(count: int) -> None:
        index = indexes[count]
        for number in range(200):
            chosen = SubjectFilter((shape.format(number),))
            assert count_matching(index, chosen, 1) == count // 1000

    assert growth(ask, small=1_000, times=16) < 8


def test_looked_up_and_looked_through_are_the_same() -> None:
    """Sorted or not, with subjects that came later, filters of all kinds match what they match one by one."""
    index = _filled(3_000)
    shapes = (("a.7.>",), ("a.*.7",), ("a.7.*", "a.8.*", "a.9.9", "b.0"), ("*.7.*",), ("a.7*.>", "a.70.*"), (">",))
    for more in range(40):
        index.append(index.last_seq + 1, index.table.intern(f"a.7.later{more}"), ts_ns=index.last_seq + 2, size=10)
        chosen = SubjectFilter((*shapes[more % len(shapes)], f"x{more}"))
        expected = sum(map(chosen.matches, index.table.names))
        assert count_matching(index, chosen, 1) == expected
