"""The client dialect: what a listener for clients sends, and the frames by which a client subscribes.

Beside the common frames, each ended by CR LF (nats-server's deliverMsg, processSub and processUnsub)::

    MSG <subject> <sid> [<reply>] <size>            HMSG <subject> <sid> [<reply>] <header> <total>
    SUB <subject> [<queue>] <sid>                   UNSUB <sid>                               (ours)
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
"""A server keeps a client whose subscription it did not take, or that must not publish: such a link serves nobody."""


def encode_subscribe(subject: bytes, queue: bytes, sid: int) -> bytes:
    """The frame that asks for messages of ``subject``; ``ValueError`` for what would break it."""
    check_token("subject", subject)
    if not queue:
        return b"SUB %b %d\r\n" % (subject, sid)
    check_token("queue", queue)
    return b"SUB %b %b %d\r\n" % (subject, queue, sid)


def encode_unsubscribe(sid: int) -> bytes:
    """The frame that ends what :func:`encode_subscribe` began; what was on its way still comes."""
    return b"UNSUB %d\r\n" % sid
