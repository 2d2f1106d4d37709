"""Subject transforms that the comparison with nats-server does not reach: what is refused, and what maps to what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.config.subject_transform import BadMapping, SubjectTransform, check_mapping

tokens = st.text(alphabet="abc-", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("src", "dest", "text"),
    [
        ("a", "b..c", "invalid mapping destination: invalid transform"),
        ("a", "b.>.c", "invalid mapping destination: invalid transform in c"),
        ("a.>", "b", "invalid subject"),
        ("a", "b.>", "invalid subject"),
        ("a.*", "b.*", "invalid subject"),
        ("a.*", "b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a.*", "{{what(1)}}", "invalid mapping destination: unknown function in {{what(1)}}"),
        (
            "a.*",
            "{{left(1)}}",
            "invalid mapping destination: not enough arguments passed to the function in {{left(1)}}",
        ),
    ],
)
def test_refused_with_the_reason(src: str, dest: str, text: str) -> None:
    """A mapping that is none is refused with nats-server's words."""
    with pytest.raises(BadMapping) as refused:
        check_mapping(src, dest)
    assert str(refused.value) == text


def test_no_destination_changes_nothing() -> None:
    """An empty destination is a mapping that is never applied."""
    check_mapping("a..b", "")


def test_what_does_not_match_is_left_alone() -> None:
    """Only subjects of the source are mapped."""
    transform = SubjectTransform("a.*", "b.$1")
    assert transform.match("a.x") == "b.x"
    assert transform.match("c.x") is None
    assert transform.match("a.x.y") is None


@given(st.lists(tokens, min_size=2, max_size=4))
def test_swapping_twice_is_the_same(parts: list[str]) -> None:
    """Wildcards are placed where the destination says."""
    pattern = ".".join("*" for _ in parts)
    dest = ".".join(f"{{{{wildcard({number})}}}}" for number in range(len(parts), 0, -1))
    swap = SubjectTransform(pattern, dest)
    assert swap.transform(swap.transform(".".join(parts))) == ".".join(parts)


@given(tokens, st.integers(1, 7))
def test_cuts_keep_all_text(token: str, size: int) -> None:
    """Splitting and slicing put dots into a token and change nothing else."""
    for function in ("SplitFromLeft", "SplitFromRight", "SliceFromLeft", "SliceFromRight"):
        mapped = SubjectTransform("*", f"{{{{{function}(1,{size})}}}}").transform(token)
        assert mapped.replace(".", "") == token
        assert all(len(part) <= max(size, len(token) - size) for part in mapped.split("."))


@given(tokens, st.integers(1, 50))
def test_partitions_are_in_range_and_stable(token: str, buckets: int) -> None:
    """A subject always falls into the same one of the partitions."""
    transform = SubjectTransform("*", f"{{{{partition({buckets},1)}}}}")
    assert 0 <= int(transform.transform(token)) < buckets
    assert transform.transform(token) == transform.transform(token)
