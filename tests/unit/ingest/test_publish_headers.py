"""Headers that the server sets in messages."""

import pytest

from ingest.publishing.publish_headers import set_field


@pytest.mark.parametrize(
    ("header", "stored"),
    [
        (b"", b"NATS/1.0\r\nA: new\r\n\r\n"),
        (b"NATS/1.0\r\nB: 1\r\n\r\n", b"NATS/1.0\r\nB: 1\r\nA: new\r\n\r\n"),
        (b"NATS/1.0\r\nA: old one\r\nB: 1\r\n\r\n", b"NATS/1.0\r\nA: new\r\nB: 1\r\n\r\n"),
        (b"NATS/1.0\r\nA:old\r\nA: 2\r\n\r\n", b"NATS/1.0\r\nA:new\r\nA: 2\r\n\r\n"),
        (b"NATS/1.0\r\nA:\r\n\r\n", b"NATS/1.0\r\nA:new\r\n\r\n"),
    ],
)
def test_a_header_is_set_where_it_stands(header: bytes, stored: bytes) -> None:
    """The first of its name gets the value, and only without one it is added at the end."""
    assert set_field(header, b"A", b"new") == stored
