"""An atheris target for the parser: ``python tests/fuzz/fuzz_wire_parser.py [corpus folder] [-runs=100000]``.

For any bytes and any cut, in both dialects: the parser gives events or its own error, the same whole or in pieces; it
holds no more than one frame; and each message that comes out survives being encoded for a leaf and parsed again.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import atheris
except ImportError:
    sys.stderr.write("skipped: atheris is not installed (pip install atheris; it has wheels for CPython on Linux)\n")
    raise SystemExit(0) from None

with atheris.instrument_imports(include=["ingest"]):
    from ingest.protocol.client_protocol import CLIENT
    from ingest.protocol.leaf_protocol import LEAF, encode_message
    from ingest.protocol.wire_protocol import Dialect, ProtocolError, WireMessage, WireParser

LINE_MAX, PAYLOAD_MAX = 256, 1024
FRAMES = [
    b"LMSG a 5\r\nhello\r\n",
    b"LMSG a r 5\r\nhello\r\n",
    b"LMSG a + r q1 q2 5\r\nhello\r\n",
    b"HMSG a | q 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"LS+ a.> q 3\r\nLS- a.> q\r\n",
    b"MSG a 7 5\r\nhello\r\n",
    b"MSG a 7 r 5\r\nhello\r\n",
    b"HMSG a 7 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b'INFO {"nonce":"x"} \r\nPING\r\nPONG\r\n+OK\r\n-ERR \'x\'\r\n',
]
"""Most of an input is made of these, so that faults between good frames are reached."""


def parse(dialect: Dialect, chunks: list[bytes]) -> tuple[list[object], bool]:
    """All events, with runs laid open, and whether an error ended them."""
    parser = WireParser(dialect, line_max=LINE_MAX, payload_max=PAYLOAD_MAX)
    seen: list[object] = []
    for chunk in chunks:
        try:
            events, failed = parser.feed(chunk), False
        except ProtocolError as error:
            events, failed = error.events, True
        for event in events:
            seen.extend(event if isinstance(event, list) else [event])
        if failed:
            return seen, True
        assert parser.held_bytes <= LINE_MAX + PAYLOAD_MAX + 2
    return seen, False


def one_input(data: bytes) -> None:
    """Called by atheris for each input."""
    provider = atheris.FuzzedDataProvider(data)
    dialect = provider.PickValueInList([LEAF, CLIENT])
    sizes = [provider.ConsumeIntInRange(1, 64) for _ in range(provider.ConsumeIntInRange(0, 16))]
    pieces = []
    while provider.remaining_bytes():
        whole_frame = provider.ConsumeIntInRange(0, 3) > 0
        pieces.append(provider.PickValueInList(FRAMES) if whole_frame else provider.ConsumeBytes(12))
    stream = b"".join(pieces)
    chunks = []
    for size in sizes:
        chunks.append(stream[:size])
        stream = stream[size:]
    chunks.append(stream)
    whole = b"".join(chunks)
    events, failed = parse(dialect, [whole])
    assert parse(dialect, chunks) == (events, failed)
    for event in events:
        if isinstance(event, WireMessage):
            frame = encode_message(event.subject, event.payload, header=event.header, reply=event.reply)
            assert WireParser(LEAF).feed(frame) == [[event]]


def main() -> None:
    """Fuzz until a failure or until the given number of runs."""
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
