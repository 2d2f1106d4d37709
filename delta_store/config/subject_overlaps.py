"""Overlaps among the filters of one configuration; error 10052 where comparing them takes too long."""

import bisect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from conf.limits import SUBJECT_STEPS_MAX
from delta_store.config.api_errors import stream_invalid_config
from delta_store.values.subject_relations import SubjectTrie, TooManyComparisons, overlaps


@contextmanager
def comparing() -> Iterator[None]:
    """Refuse a configuration whose subjects can't be compared in time."""
    try:
        yield
    except TooManyComparisons:
        raise stream_invalid_config("subjects are too many and too alike to be compared") from None


def first_overlap(given: Sequence[str]) -> tuple[int, int] | None:
    """Return the index of the first filter that overlaps a later one, and that of the first it overlaps."""
    with comparing():
        if not _some_overlap(given, len(given)):
            return None
        first = bisect.bisect_left(range(len(given)), True, key=lambda place: _some_overlap(given, place + 1))
    return first, next(place for place in range(first + 1, len(given)) if overlaps(given[first], given[place]))


def first_covered(given: Sequence[str]) -> int | None:
    """Return the index of the first filter that another one, or a repetition, makes superfluous."""
    with comparing():
        trie = _trie(given)
        for place, one in enumerate(given):
            if any(other.value != place for other in trie.covering(one)):
                return place
    return None


def _some_overlap(given: Sequence[str], stop: int) -> bool:
    """Whether one of the filters before ``stop`` overlaps any other."""
    every = _trie(given)
    some = every if stop == len(given) else _trie(given[:stop])
    return next(some.pairs(every), None) is not None


def _trie(given: Sequence[str]) -> SubjectTrie[int]:
    return SubjectTrie(((one, place) for place, one in enumerate(given)), steps_max=SUBJECT_STEPS_MAX)
