"""What a hub takes in one message: a frame with more than its ``max_payload`` would end the link. Pure.

Whoever makes replies keeps within it, by pages or with an error of its own. Here is the last gate: what is too large
all the same never reaches the socket. A requester that waits at an inbox is told, anything else is only reported.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

TOO_LARGE: Final = b"NATS/1.0 413 Message Too Large\r\n\r\n"
"""Header block of the answer in place of one that the hub would not take."""
_VERBS: Final = (b"LMSG ", b"HMSG ")
_INBOX: Final = b"_INBOX."


class Frame(NamedTuple):
    """Where one frame stands in a block of them."""

    start: int
    stop: int
    size: int
    """Bytes of header and payload, as the hub counts them."""


class Oversize(NamedTuple):
    """A message that was not sent."""

    subject: bytes
    size: int


def frames_of(block: bytes) -> Iterator[Frame]:
    """The frames of an encoded block, which must be whole."""
    start = 0
    while start < len(block):
        line_stop = block.index(b"\r\n", start)
        size, stop = 0, line_stop + 2
        if block.startswith(_VERBS, start):
            size = int(block[block.rindex(b" ", start, line_stop) + 1 : line_stop])
            stop += size + 2
        yield Frame(start, stop, size)
        start = stop


def first_oversize(block: bytes, most: int) -> Frame | None:
    """The first frame that holds more than ``most`` bytes."""
    if len(block) <= most:
        return None
    return next((frame for frame in frames_of(block) if frame.size > most), None)


def within(block: bytes, most: int) -> tuple[bytes, list[Oversize]]:
    """The block without frames of more than ``most`` bytes, and what these were."""
    if first_oversize(block, most) is None:
        return block, []
    kept: list[bytes] = []
    left_out: list[Oversize] = []
    for frame in frames_of(block):
        if frame.size <= most:
            kept.append(block[frame.start : frame.stop])
            continue
        subject = block[frame.start + len(_VERBS[0]) : block.index(b"\r\n", frame.start)].split(b" ", 1)[0]
        left_out.append(Oversize(subject, frame.size))
        if subject.startswith(_INBOX):
            kept.append(b"HMSG %b %d %d\r\n%b\r\n" % (subject, len(TOO_LARGE), len(TOO_LARGE), TOO_LARGE))
    return b"".join(kept), left_out
