"""The reply subjects of fast batches: what is read from them, and that nothing in them does harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.publishing.fast_reply import FastReply, is_fast, parse

_TOKENS = st.sampled_from(
    [b"", b"0", b"1", b"2", b"3", b"4", b"01", b"-1", b"+1", b"1_0", b" 1", b"ok", b"fail", b"$FI"]
)
_BIG = st.integers(0, 1 << 70).map(lambda number: b"%d" % number)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"_INBOX.b.10.fail.1.0.$FI", FastReply(b"b", 10, False, 1, 0)),
        (b"a.b.c.10.ok.2.1.$FI", FastReply(b"c", 10, True, 2, 1)),
        (b".b.10.fail.1.2.$FI", FastReply(b"b", 10, False, 1, 2)),
        (b"p..10.fail.7.3.$FI", FastReply(b"", 10, False, 7, 3)),
        (b"p.b.70000.fail.7.4.$FI", FastReply(b"b", 65535, False, 7, 4)),
        (b"p.b.0.fail.7.4.$FI", FastReply(b"b", 10, False, 7, 4)),
        (b"p.b.x.fail.007.04.$FI", FastReply(b"b", 10, False, 7, 4)),
        (b"p.b.1.fail.18446744073709551614.1.$FI", FastReply(b"b", 1, False, 2**64 - 2, 1)),
    ],
)
def test_well_formed(reply: bytes, said: FastReply) -> None:
    """Each part is read, from the end; a flow that is none is 10."""
    assert is_fast(reply)
    assert parse(reply) == said


@pytest.mark.parametrize(
    "reply",
    [
        b"b.10.fail.1.0.$FI",
        b"p.b.10.fail.1.5.$FI",
        b"p.b.10.fail.1..$FI",
        b"p.b.10.fail.2.0.$FI",
        b"p.b.10.fail.1.1.$FI",
        b"p.b.10.fail.1.3.$FI",
        b"p.b.10.fail.0.2.$FI",
        b"p.b.10.no.1.0.$FI",
        b"p.b.10.fail.18446744073709551615.1.$FI",
        b"p.b.10.fail." + b"9" * 5000 + b".1.$FI",
        b"p.b.10.fail.\xd9\xa1.0.$FI",
    ],
)
def test_not_well_formed(reply: bytes) -> None:
    """A missing part, or one that makes no sense, leaves nothing."""
    assert is_fast(reply)
    assert parse(reply) is None


def test_other_replies() -> None:
    """Only the ending, after something, makes a reply subject one of a fast batch."""
    assert [is_fast(reply) for reply in (b"", b"$FI", b".$FI", b"x.$fi", b"x$FI", b"x.$FI")] == [False] * 5 + [True]


@given(st.lists(_TOKENS | _BIG | st.binary(max_size=4), max_size=9))
def test_garbage(tokens: list[bytes]) -> None:
    """Whatever stands there: no failure, and what is read is within its bounds."""
    said = parse(b".".join(tokens) + b".$FI")
    if said is not None:
        assert 0 < said.seq < 2**64 - 1
        assert 0 < said.flow <= 65535
        assert said.end <= said.commit
        assert not (said.ping and said.commit)
