"""Subjects and filters, held against a plain definition of what a filter means."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.values import subjects
from delta_store.values.subjects import SubjectFilter

TOKENS = st.sampled_from(["a", "b", "*", ">", "a*", "é"])
WORDS = st.sampled_from(["a", "b", "a*", "é"])
FILTERS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join).filter(subjects.valid)
LITERALS = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
ALL = [".".join(tokens) for length in range(1, 5) for tokens in product(("a", "b", "c"), repeat=length)]
PLAIN = st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=3).map(".".join).filter(subjects.valid)


def meant(pattern: str, subject: str) -> bool:
    """The definition: token by token."""
    want, have = pattern.split("."), subject.split(".")
    if want[-1] == ">":
        want, have = want[:-1], (have[: len(want) - 1] if len(have) >= len(want) else [])
        if not have and want:
            return False
    return len(want) == len(have) and all(one in ("*", other) for one, other in zip(want, have, strict=True))


@pytest.mark.parametrize("subject", ["a", "a.b", "*", ">", "a.*.>", "a*.b>", "é.ü", "a.b>"])
def test_valid(subject: str) -> None:
    """Well formed subjects and filters."""
    assert subjects.valid(subject)


@pytest.mark.parametrize("subject", ["", ".", "a.", ".a", "a..b", ">.a", "a b", "a\t", "a.\n", "\r", "a.\f"])
def test_not_valid(subject: str) -> None:
    """Empty tokens, white space, and a full wildcard that is not last."""
    assert not subjects.valid(subject)
    assert not subjects.literal(subject)


def test_literal() -> None:
    """A wildcard is a whole token."""
    assert subjects.literal("a.b*.c>")
    assert not subjects.literal("a.*")
    assert not subjects.literal("a.>")


@given(pattern=FILTERS, subject=LITERALS)
def test_matching(pattern: str, subject: str) -> None:
    """A filter alone, and compiled, matches what it means."""
    assert subjects.matches(pattern, subject) == meant(pattern, subject)
    assert SubjectFilter((pattern,)).matches(subject) == meant(pattern, subject)


@given(patterns=st.lists(FILTERS, max_size=4), some=st.lists(LITERALS, max_size=8))
def test_many_filters(patterns: list[str], some: list[str]) -> None:
    """Several filters match what any of them matches, one by one and in bulk."""
    chosen = SubjectFilter(patterns)
    wanted = [any(meant(pattern, subject) for pattern in patterns) for subject in some]
    assert chosen.select(some) == [chosen.matches(subject) for subject in some] == wanted
    assert chosen == SubjectFilter(reversed(patterns + patterns))
    assert hash(chosen) == hash(SubjectFilter(reversed(patterns)))
    if chosen.is_literal:
        assert set(patterns) == chosen.literals
    if chosen.matches_all:
        assert all(wanted)


@given(patterns=st.lists(FILTERS, max_size=3), low=LITERALS, high=LITERALS)
def test_what_matches_two_subjects_may_match_all_between(patterns: list[str], low: str, high: str) -> None:
    """Where that is said, each subject from one to the other matches."""
    chosen = SubjectFilter(patterns)
    if chosen.matches_between(low, high):
        assert all(chosen.matches(subject) for subject in ALL if low <= subject <= high)
    assert SubjectFilter(("a.>", "b.>")).matches_between("b.a", "b.c")
    assert not SubjectFilter(("a.>", "b.>")).matches_between("a.a", "b.c")


@given(one=PLAIN, other=PLAIN)
def test_relations_of_filters(one: str, other: str) -> None:
    """Overlap and containment are those of the sets of subjects that are matched."""
    mine = {subject for subject in ALL if meant(one, subject)}
    its = {subject for subject in ALL if meant(other, subject)}
    assert subjects.overlaps(one, other) == subjects.overlaps(other, one) == bool(mine & its)
    assert subjects.subset(one, other) == (mine <= its)


def test_everything_and_nothing() -> None:
    """The two ends."""
    assert SubjectFilter.everything().select(ALL[:3]) == [True] * 3
    assert SubjectFilter(()).select(ALL[:3]) == [False] * 3
    assert SubjectFilter(("a.*",)) != "a.*"
    assert repr(SubjectFilter(("a.*", "b"))) == "SubjectFilter(['a.*', 'b'])"
