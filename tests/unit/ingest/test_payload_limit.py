"""The last gate before the hub: what it would not take does not leave, everything else does, byte for byte."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.protocol.leaf_protocol import LEAF, encode_message, encode_subscribe, with_queues
from ingest.protocol.payload_limit import TOO_LARGE, first_oversize, within
from ingest.protocol.wire_protocol import PONG_FRAME, WireMessage, WireParser

MOST = 64
SUBJECTS = st.sampled_from([b"orders.new", b"_INBOX.a.b", b"$JS.EVENT.x"])
FRAMES = st.one_of(
    st.sampled_from([PONG_FRAME, encode_subscribe(b"a.>"), encode_subscribe(b"a", b"q")]),
    st.builds(
        lambda subject, reply, header, data, queued: _encoded(subject, reply, header, data, queued=queued),
        SUBJECTS,
        st.sampled_from([b"", b"$JS.ACK.S.C.1.2.3.4.5@orders.new"]),
        st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
        st.integers(0, 2 * MOST).map(lambda size: b"LMSG x 9\r\n"[:size].ljust(size, b"\r")),
        st.booleans(),
    ),
)


def _encoded(subject: bytes, reply: bytes, header: bytes, data: bytes, *, queued: bool) -> bytes:
    frame = encode_message(subject, data, reply=reply, header=header)
    return with_queues(frame, [b"q1", b"q2"]) if queued else frame


def _messages(block: bytes) -> list[WireMessage]:
    return [one for event in WireParser(LEAF).feed(block) if isinstance(event, list) for one in event]


@given(st.lists(FRAMES, max_size=8))
@settings(max_examples=200, deadline=None)
def test_what_is_too_large_never_leaves(frames: list[bytes]) -> None:
    """Frames within the bound leave as they are and in order; who waits at an inbox for another one is told."""
    expected: list[bytes] = []
    gone = 0
    for frame in frames:
        size = sum(len(one.header) + len(one.payload) for one in _messages(frame))
        gone += size > MOST
        if size <= MOST:
            expected.append(frame)
        elif frame[5:].startswith(b"_INBOX."):
            expected.append(encode_message(b"_INBOX.a.b", b"", header=TOO_LARGE))
    block, left_out = within(b"".join(frames), MOST)
    assert block == b"".join(expected)
    assert len(left_out) == gone
    assert all(one.size > MOST for one in left_out)
    assert (first_oversize(b"".join(frames), MOST) is None) == (not left_out)
