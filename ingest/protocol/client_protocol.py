"""The client dialect: the frames that a listener for clients sends, and those by which a client subscribes.

Beside the common frames, each ended by CR LF (nats-server's deliverMsg, processSub and processUnsub)::

    MSG <subject> <sid> [<reply>] <size>            HMSG <subject> <sid> [<reply>] <header> <total>
    SUB <subject> [<queue>] <sid>                   UNSUB <sid>                               (ours)
    PUB <subject> [<reply>] <size>                  HPUB <subject> [<reply>] <header> <total> (ours)
"""

import re
from typing import Final

from ingest.protocol.wire_protocol import SIZE, SUBJECT, Dialect, check_token

_SID = rb"[0-9]++"

CLIENT: Final = Dialect(
    name="client",
    plain=re.compile(rb"MSG %b %b (?:%b )?%b\r\n" % (SUBJECT, _SID, SUBJECT, SIZE)).match,
    header=re.compile(rb"HMSG %b %b (?:%b )?%b %b\r\n" % (SUBJECT, _SID, SUBJECT, SIZE, SIZE)).match,
    rare=re.compile(rb"(?!)").match,
    control=lambda _: None,
    err_is_final=True,
)
"""After ``-ERR`` the server may keep the connection, but without the refused subscription it is of no use."""


def encode_subscribe(subject: bytes, queue: bytes, sid: int) -> bytes:
    """Return the SUB frame. Raises ``ValueError`` for a subject or queue with spaces."""
    check_token("subject", subject)
    if not queue:
        return b"SUB %b %d\r\n" % (subject, sid)
    check_token("queue", queue)
    return b"SUB %b %b %d\r\n" % (subject, queue, sid)


def encode_unsubscribe(sid: int) -> bytes:
    """Return the UNSUB frame; messages already on their way still arrive."""
    return b"UNSUB %d\r\n" % sid


def encode_publish(subject: bytes, payload: bytes, *, header: bytes = b"", reply: bytes = b"") -> bytes:
    """Return the frame that publishes a message."""
    reply = reply and b" " + reply
    if not header:
        return b"PUB %b%b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
    sizes = len(header), len(header) + len(payload)
    return b"HPUB %b%b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, header, payload)
