"""What a delivery's reply says, a message's size, times to the nanosecond, and names."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.client.delivery import message_size, moment, read_metadata
from consumers.client.errors import UnreadableAnswer, UsageError
from consumers.client.names import checked, checked_subject
from consumers.client.stored_message import from_json, read_headers, read_time, write_time

TOKEN = st.text("abcXYZ019_-@", min_size=1, max_size=8)
NUMBER = st.integers(0, 2**63)


@given(TOKEN, TOKEN, st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, NUMBER), st.sampled_from(["", "hub"]))
def test_both_layouts_of_a_reply_are_read(stream: str, consumer: str, numbers: tuple[int, ...], domain: str) -> None:
    """The short and the long acknowledgement subject give the same, to the nanosecond."""
    tail = ".".join([stream, consumer, *map(str, numbers)])
    short = read_metadata(f"$JS.ACK.{tail}")
    assert tuple(short) == (stream, consumer, *numbers, "")
    for extra in ("", ".random", ".a.b"):
        assert read_metadata(f"$JS.ACK.{domain or '_'}.HASH.{tail}{extra}") == short._replace(domain=domain)


@pytest.mark.parametrize(
    "reply", ["", "_INBOX.a.b", "$JS.ACK.S.C.1.2.3.4", "$JS.ACK.S.C.1.2.3.4.x", "$JS.ACK.S.C.1.2.3.4.5.6"]
)
def test_other_replies_are_refused(reply: str) -> None:
    """What no consumer delivered has no metadata."""
    with pytest.raises(UsageError):
        read_metadata(reply)


def test_a_size_is_the_servers() -> None:
    """Subject, reply, header block and payload count, as they are on the wire."""
    block = b"NATS/1.0\r\nA: 1\r\nKey: w\xc3\xb6rt\r\n\r\n"
    assert message_size("s.1", "$JS.ACK.x", {"A": "1", "Key": "wört"}, b"12345") == 3 + 9 + len(block) + 5
    assert message_size("s", "", None, b"") == 1
    assert read_headers(block) == {"A": "1", "Key": "wört"}


@given(st.integers(0, 4 * 10**18))
def test_times_keep_their_nanoseconds(ns: int) -> None:
    """A time is read back to its last digit, from RFC 3339 and from Go's notation; a datetime cuts it."""
    seconds, fraction = divmod(ns, 10**9)
    whole = datetime.fromtimestamp(seconds, UTC)
    digits = f"{fraction:09}".rstrip("0")
    for text in (f"{whole:%Y-%m-%dT%H:%M:%S}.{digits or 0}Z", f"{whole:%Y-%m-%d %H:%M:%S}.{digits or 0} +0000 UTC"):
        assert read_time(text) == ns
    assert moment(ns) <= datetime.fromtimestamp(seconds + 1, UTC)
    assert read_time(write_time(moment(ns))) == ns // 1000 * 1000


def test_what_is_no_message_is_refused() -> None:
    """An answer that lacks a message's fields is an error of its own."""
    with pytest.raises(UnreadableAnswer):
        read_time("yesterday")
    with pytest.raises(UnreadableAnswer):
        from_json("S", {"subject": "s"})


def test_names_are_one_token() -> None:
    """A name cannot become more than one token, a subject not more than one line."""
    assert checked("ORDERS-1", "stream") == "ORDERS-1"
    for name in ("", "a.b", "a*", ">", "a b", "a/b", "a\\b", "a\r\nPUB x 0"):
        with pytest.raises(UsageError):
            checked(name, "stream")
    assert checked_subject("a.*.>") == "a.*.>"
    for subject in ("", "a b", "a\r\nb"):
        with pytest.raises(UsageError):
            checked_subject(subject)
