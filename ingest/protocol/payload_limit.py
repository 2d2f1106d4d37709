"""The last gate for a hub's ``max_payload``: a frame with more bytes would end the link. Pure.

Those who make replies keep within it, by pages or an error of their own. A message too large all the same is left out
here and reported; a requester who waits at an inbox gets a 413 in its place.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

TOO_LARGE: Final = b"NATS/1.0 413 Message Too Large\r\n\r\n"
"""Header block of the reply in place of one that is too large."""
_VERBS: Final = (b"LMSG ", b"HMSG ")
_INBOX: Final = b"_INBOX."


class Frame(NamedTuple):
    """The position of one frame in a block of frames."""

    start: int
    stop: int
    size: int
    """Bytes of header and payload, as the hub counts them."""


class Oversize(NamedTuple):
    """A message that was not sent."""

    subject: bytes
    size: int


def frames_of(block: bytes) -> Iterator[Frame]:
    """Yield the frames of an encoded block, which must be complete."""
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
    """Return the first frame of more than ``most`` bytes."""
    if len(block) <= most:
        return None
    return next((frame for frame in frames_of(block) if frame.size > most), None)


def within(block: bytes, most: int) -> tuple[bytes, list[Oversize]]:
    """Return the block without frames of more than ``most`` bytes, and the messages left out."""
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
