"""Acknowledgement frames."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.publishing.pub_ack import PubAcks, pub_acks


@given(first=st.integers(1, 10**7), number=st.integers(1, 300), holes=st.integers(2, 9))
def test_runs_are_single_acknowledgements(first: int, number: int, holes: int) -> None:
    """A run's frames are those of its messages one by one; who gives no reply subject gets none."""
    acks = PubAcks("ORDERS", "")
    replies = [b"" if place % holes == 1 else b"_INBOX.%d" % place for place in range(number)]
    alone = [acks.stored(reply, first + place) for place, reply in enumerate(replies) if reply]
    assert acks.stored_run(replies, first) == alone
    full = [b"r"] * number
    assert acks.stored_run(full, first) == [acks.stored(b"r", first + place) for place in range(number)]


def test_over_a_power_of_ten() -> None:
    """Each frame carries its own size."""
    assert PubAcks("S", "").stored_run([b"a", b"b", b"c"], 9) == [
        b'LMSG a 22\r\n{"stream":"S","seq":9}\r\n',
        b'LMSG b 23\r\n{"stream":"S","seq":10}\r\n',
        b'LMSG c 23\r\n{"stream":"S","seq":11}\r\n',
    ]


def test_too_many_requests() -> None:
    """A status for clients that look at headers, an error body for those that do not."""
    body = b'{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":"S","seq":0}'
    header = b"NATS/1.0 429 Too Many Requests\r\n\r\n"
    sizes = (len(header), len(header) + len(body))
    assert pub_acks("S").busy(b"r") == b"HMSG r %d %d\r\n%b%b\r\n" % (*sizes, header, body)
    assert pub_acks("S") is pub_acks("S")
