"""Filters in masses: a trie says of them what comparing each with each other says."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.config.subject_overlaps import first_covered, first_overlap
from delta_store.values.subject_relations import SubjectTrie, TooManyComparisons, overlaps, subset
from delta_store.values.subjects import SubjectFilter, matches
from tests.operations import growth

_TOKENS = st.lists(st.sampled_from(["a", "b", "*", "", "x" * 3]), min_size=1, max_size=4)
_LONG = st.sampled_from([[], ["t"] * 30, ["t"] * 33])
PATTERNS = st.builds(
    lambda long, tokens, end: ".".join([*long, *tokens, *end]),
    _LONG,
    _TOKENS,
    st.sampled_from([[], [">"], [">", "a"]]),
)
LITERALS = st.builds(
    lambda long, tokens: ".".join([*long, *tokens]),
    _LONG,
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
)


@given(st.lists(PATTERNS, max_size=12), PATTERNS)
@settings(max_examples=300, deadline=None)
def test_a_trie_agrees_with_single_comparisons(patterns: list[str], asked: str) -> None:
    """Overlapping and covering filters are those that single comparisons find, also after some were discarded."""
    trie = SubjectTrie((one, place) for place, one in enumerate(patterns))
    for place, one in enumerate(patterns[:4]):
        trie.discard(one, place)
    left = {place: one for place, one in enumerate(patterns) if place >= 4}
    assert {one.value for one in trie.overlapping(asked)} == {at for at, one in left.items() if overlaps(one, asked)}
    assert {one.value for one in trie.covering(asked)} == {at for at, one in left.items() if subset(asked, one)}


@given(st.lists(PATTERNS, max_size=8))
@settings(max_examples=200, deadline=None)
def test_the_first_clash_is_found(patterns: list[str]) -> None:
    """The first filter that overlaps a later one, and the first that another one covers, are found as by trying all."""
    pairs = [
        pair for pair in itertools.combinations(range(len(patterns)), 2) if overlaps(*(patterns[at] for at in pair))
    ]
    assert first_overlap(patterns) == min(pairs, default=None)
    ordered = itertools.permutations(range(len(patterns)), 2)
    assert first_covered(patterns) == min((a for a, b in ordered if subset(patterns[a], patterns[b])), default=None)


@given(st.lists(PATTERNS.filter(lambda one: ".." not in f".{one}." and ">." not in one), max_size=30), LITERALS)
@settings(max_examples=200, deadline=None)
def test_many_filters_match_as_each_of_them(patterns: list[str], subject: str) -> None:
    """A set of filters, few or many, matches what one of them matches."""
    chosen = SubjectFilter(patterns)
    assert chosen.matches(subject) == any(matches(one, subject) for one in patterns)
    assert chosen.select([subject]) == [chosen.matches(subject)]


@pytest.mark.parametrize("pattern", ["a.{}", "a.{}.>", "*.{}", "{}.*.x", "a.{}.*.b.{}"])
def test_work_grows_with_the_number(pattern: str) -> None:
    """Eight times as many filters are about eight times the work, whatever they look like."""

    def check(count: int) -> None:
        filters = [pattern.format(number, number) for number in range(count)]
        assert first_overlap(filters) is None
        assert first_covered(filters) is None
        assert not SubjectFilter(filters).matches("q.q")

    assert growth(check, small=250, times=8) < 16


def test_a_clash_is_found_in_time() -> None:
    """Also where two of many filters overlap, the work grows with their number."""
    assert growth(lambda count: first_overlap([*map("a.{}".format, range(count)), "a.5"]), small=250, times=8) < 24


def test_comparing_has_a_bound() -> None:
    """Filters made to be hard to tell apart end with an error, not with a standstill."""
    hard = [f"*.{number}.a" for number in range(100)] + [f"{number}.*.b" for number in range(100)]
    trie = SubjectTrie(((one, one) for one in hard), steps_max=5_000)
    with pytest.raises(TooManyComparisons):
        list(trie.pairs(trie))
