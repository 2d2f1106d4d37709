"""The leafnode dialect: the frames that a hub's leafnode listener sends, and those that go back.

Beside the common frames, each ended by CR LF (nats-server's processLeafMsgArgs, processLeafHeaderMsgArgs and
writeLeafSub)::

    LMSG <subject> [<reply>] <size>                 LMSG <subject> + <reply> <queue>... <size>
    HMSG <subject> [<reply>] <header> <total>       LMSG <subject> | <queue>... <size>        (HMSG likewise)
    LS+ <subject> [<queue> <weight>]                LS- <subject> [<queue>]
"""

import re
from collections.abc import Iterable
from typing import Final

from ingest.protocol.wire_protocol import SIZE, SUBJECT, Dialect, Interest, check_token

_match_plain = re.compile(rb"LMSG %b (?:%b )?%b\r\n" % (SUBJECT, SUBJECT, SIZE)).match
_match_header = re.compile(rb"HMSG %b (?:%b )?%b %b\r\n" % (SUBJECT, SUBJECT, SIZE, SIZE)).match
_match_queues = re.compile(
    rb"(?:L|(H))MSG %b (?:\+ %b|\|)(?: [^ \t\r\n]++)*?(?(1) %b) %b\r\n" % (SUBJECT, SUBJECT, SIZE, SIZE)
).match
_match_interest = re.compile(
    rb"LS(?:\+ %b(?: %b %b)?|- %b(?: %b)?)\r\n" % (SUBJECT, SUBJECT, SIZE, SUBJECT, SUBJECT)
).fullmatch


def _interest(line: bytes) -> Interest | None:
    match = _match_interest(line)
    if match is None:
        return None
    subject, queue, weight, gone, gone_queue = match.groups(b"")
    if gone:
        return Interest(gone, gone_queue, 0)
    return Interest(subject, queue, max(1, int(weight or b"1")))


LEAF: Final = Dialect(
    name="leafnode",
    plain=_match_plain,
    header=_match_header,
    rare=_match_queues,
    control=_interest,
    err_is_final=False,
)
"""A hub closes a leaf's connection itself after each error that matters."""


def encode_message(
    subject: bytes, payload: bytes, *, header: bytes = b"", reply: bytes = b"", queues: tuple[bytes, ...] = ()
) -> bytes:
    """Return the frame that delivers a message to the hub's plain subscribers and one member of each of ``queues``.

    With a ``reply`` of ``$JS.ACK.…@<subject>`` the hub gives its clients that subject (server/client.go:
    processMsgResults). Raises ``ValueError`` for a subject or reply that would break the frame.
    """
    if b"\n" in subject or b" " in subject:
        raise ValueError(f"not a subject: {subject!r}")
    if not reply and not queues:
        if not header:
            return b"LMSG %b %d\r\n%b\r\n" % (subject, len(payload), payload)
        return b"HMSG %b %d %d\r\n%b%b\r\n" % (subject, len(header), len(header) + len(payload), header, payload)
    if b"\n" in reply or b" " in reply:
        raise ValueError(f"not a reply subject: {reply!r}")
    target = _target(subject, reply, queues) if queues else b"%b %b" % (subject, reply)
    if not header:
        return b"LMSG %b %d\r\n%b\r\n" % (target, len(payload), payload)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (target, len(header), len(header) + len(payload), header, payload)


def _target(subject: bytes, reply: bytes, queues: tuple[bytes, ...]) -> bytes:
    for queue in queues:
        check_token("queue", queue)
    indicator = b"+ %b" % reply if reply else b"|"
    return b"%b %b %b" % (subject, indicator, b" ".join(queues))


def subject_of(frame: bytes) -> bytes:
    """Return the subject of an encoded message."""
    return frame[5 : frame.index(b" ", 5)]


def with_queues(frames: bytes, queues: Iterable[bytes]) -> bytes:
    """Return ``frames``, which name no queue groups, addressed to one member of each of ``queues`` too."""
    names = b" ".join(queues)
    parts: list[bytes] = []
    pos = 0
    while pos < len(frames):
        match = _match_plain(frames, pos) or _match_header(frames, pos)
        assert match is not None, frames[pos : pos + 80]
        subject, reply, *sizes = match.groups(b"")
        target = b"%b + %b" % (subject, reply) if reply else b"%b |" % subject
        pos = match.end() + int(sizes[-1]) + 2
        parts.append(b"%b %b %b %b\r\n" % (match[0][:4], target, names, b" ".join(sizes)))
        parts.append(frames[match.end() : pos])
    return b"".join(parts)


def encode_subscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """Return the LS+ frame. Raises ``ValueError`` for a subject or queue with spaces."""
    return b"LS+ %b%b\r\n" % (_subject_and_queue(subject, queue), b" 1" if queue else b"")


def encode_unsubscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """Return the LS- frame. Raises ``ValueError`` for a subject or queue with spaces."""
    return b"LS- %b\r\n" % _subject_and_queue(subject, queue)


def _subject_and_queue(subject: bytes, queue: bytes) -> bytes:
    check_token("subject", subject)
    if not queue:
        return subject
    check_token("queue", queue)
    return b"%b %b" % (subject, queue)
