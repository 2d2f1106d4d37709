"""The leafnode wire protocol: bytes of a nats-server in, events out, and the frames that go back.

Invariant: what comes out does not depend on how the stream was cut into chunks, and what is held between two chunks
is at most one frame (a control line of ``LEAF_CONTROL_LINE_BYTES_MAX``, a payload of ``LEAF_PAYLOAD_BYTES_MAX``).

Frames, each ended by CR LF (nats-server's processLeafMsgArgs, processLeafHeaderMsgArgs and writeLeafSub)::

    LMSG <subject> [<reply>] <size>                 LMSG <subject> + <reply> <queue>... <size>
    HMSG <subject> [<reply>] <header> <total>       LMSG <subject> | <queue>... <size>        (HMSG likewise)
    LS+ <subject> [<queue> <weight>]                LS- <subject> [<queue>]
    INFO <json>      PING      PONG      +OK      -ERR '<text>'
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from conf.limits import LEAF_CONTROL_LINE_BYTES_MAX, LEAF_PAYLOAD_BYTES_MAX

PING_FRAME: Final = b"PING\r\n"
PONG_FRAME: Final = b"PONG\r\n"

_CR, _LF = b"\r\n"
_SUBJECT = rb"([^ \t\r\n]++)"
_SIZE = rb"([0-9]{1,9}+)"
_match_plain = re.compile(rb"LMSG %b (?:%b )?%b\r\n" % (_SUBJECT, _SUBJECT, _SIZE)).match
_match_header = re.compile(rb"HMSG %b (?:%b )?%b %b\r\n" % (_SUBJECT, _SUBJECT, _SIZE, _SIZE)).match
_match_queues = re.compile(
    rb"(?:L|(H))MSG %b (?:\+ %b|\|)(?: [^ \t\r\n]++)*?(?(1) %b) %b\r\n" % (_SUBJECT, _SUBJECT, _SIZE, _SIZE)
).match
_match_interest = re.compile(
    rb"LS(?:\+ %b(?: %b %b)?|- %b(?: %b)?)\r\n" % (_SUBJECT, _SUBJECT, _SIZE, _SUBJECT, _SUBJECT)
).fullmatch
_match_error = re.compile(rb"-ERR ?'?([^\r\n]*?)'?\r\n").fullmatch
_match_info = re.compile(rb"INFO ([^\r\n]+)\r\n").fullmatch
_new = tuple.__new__
_PINNED_BYTES_MIN: Final = 16 * 1024
"""A rest of a chunk that is larger is held with the whole chunk instead of being copied."""


class Message(NamedTuple):
    """One message as it came over a link; absent parts are empty."""

    subject: bytes
    reply: bytes
    header: bytes
    """The raw block, from ``NATS/1.0`` to the empty line, as published."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class Info:
    """The hub describes itself: first of all, and again after an accepted CONNECT."""

    json: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    """The hub asks for a PONG."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The hub has processed everything that was sent before our PING."""


@dataclass(frozen=True, slots=True)
class Err:
    """The hub complains; it closes the connection after most of these."""

    text: str


@dataclass(frozen=True, slots=True)
class Interest:
    """Someone at the hub listens to ``subject`` (``added``), or no longer does."""

    subject: bytes
    queue: bytes
    """Queue group, empty for a plain subscription."""
    weight: int
    """Members of the queue group; 1 for a plain subscription, 0 when it ends."""

    @property
    def added(self) -> bool:
        """Whether interest exists now."""
        return self.weight > 0


Event: TypeAlias = list[Message] | Info | Ping | Pong | Err | Interest
"""Consecutive messages come as one list."""


class LeafProtocolError(ValueError):
    """The peer sent what no leafnode hub sends; the connection can't be used further."""

    def __init__(self, reason: str, events: list[Event] | None = None) -> None:
        super().__init__(reason)
        self.events = events or []
        """What the same chunk held before the fault."""


class _OpenFrame(NamedTuple):
    """A message of which only the control line is known to be whole."""

    line: bytes
    subject: bytes
    reply: bytes
    header_bytes: int
    payload_bytes: int
    """Header block and payload."""
    size: int
    """The whole frame."""


class LeafParser:
    """Turns the chunks of one connection into events; after an error it only repeats that error."""

    __slots__ = ("_failure", "_held", "_held_bytes", "_line_max", "_open", "_payload_max")

    def __init__(
        self, *, payload_max: int = LEAF_PAYLOAD_BYTES_MAX, line_max: int = LEAF_CONTROL_LINE_BYTES_MAX
    ) -> None:
        self._payload_max = payload_max
        self._line_max = line_max
        self._held: list[bytes | memoryview] = []
        self._held_bytes = 0
        self._open: _OpenFrame | None = None
        """The frame at the start of what is held; None while its control line is not complete."""
        self._failure = ""

    @property
    def held_bytes(self) -> int:
        """Bytes of the frame that is not complete yet."""
        return self._held_bytes

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completes. Raises :class:`LeafProtocolError`."""
        if self._failure:
            raise LeafProtocolError(self._failure)
        pos, run = 0, []
        if self._held:
            self._held_bytes += len(data)
            if not self._completed_by(data):
                if data:
                    self._held.append(data)
                return []
            if self._open is None:
                data = b"".join((*self._held, data))
            else:
                pos = len(data) - (self._held_bytes - self._open.size)
                run = [self._finish(self._open, data, pos)]
            self._held = []
            self._held_bytes = 0
            self._open = None
        events: list[Event] = []
        pos = self._parse(data, pos, events, run)
        if self._failure:
            raise LeafProtocolError(self._failure, events)
        if pos < len(data):
            rest = memoryview(data)[pos:]
            self._held.append(rest if len(rest) > _PINNED_BYTES_MIN else bytes(rest))
            self._held_bytes = len(rest)
        return events

    def _completed_by(self, data: bytes) -> bool:
        """Whether ``data``, the newest piece, may complete what is held."""
        if self._open is not None:
            return self._held_bytes >= self._open.size
        if b"\n" not in data and self._held_bytes >= self._line_max:
            self._failure = f"control line longer than {self._line_max} bytes"
            raise LeafProtocolError(self._failure)
        return b"\n" in data

    def _finish(self, frame: "_OpenFrame", data: bytes, end: int) -> Message:
        """The message that was held in pieces and ends at ``end`` of the newest one. A large payload is copied once.

        Raises :class:`LeafProtocolError`.
        """
        pieces = [memoryview(piece) for piece in (*self._held, memoryview(data)[:end])]
        pieces[0] = pieces[0][len(frame.line) :]
        trailer = bytes(pieces[-1][-2:])
        pieces[-1] = pieces[-1][:-2]
        if len(trailer) < 2:
            trailer = bytes(pieces[-2][-1:]) + trailer
            pieces[-2] = pieces[-2][:-1]
        if trailer != b"\r\n":
            self._failure = f"no CR LF after the payload of {frame.line[:80]!r}"
        elif frame.header_bytes > frame.payload_bytes:
            self._failure = f"header longer than the message: {frame.line[:80]!r}"
        if self._failure:
            raise LeafProtocolError(self._failure)
        body = b"".join(pieces)
        split = frame.header_bytes
        return Message(frame.subject, frame.reply, body[:split], body[split:] if split else body)

    def _parse(self, data: bytes, pos: int, events: list[Event], run: list[Message]) -> int:
        """Append the events of all complete frames from ``pos`` on, ``run`` first; give the position after them."""
        size = len(data)
        while True:
            pos = self._messages(data, pos, events, run)
            run = []
            if pos == size or self._open is not None or self._failure:
                return pos
            end = data.find(b"\n", pos, pos + self._line_max) + 1
            if not end:
                if size - pos >= self._line_max:
                    self._failure = f"control line longer than {self._line_max} bytes"
                return pos
            line = data[pos:end]
            event = _control(line)
            if event is not None:
                events.append(event)
            elif line != b"+OK\r\n":
                self._failure = f"not a leafnode frame: {line[:80]!r}"
                return pos
            pos = end

    def _messages(  # noqa: C901  # a call more costs a tenth
        self, data: bytes, pos: int, events: list[Event], run: list[Message]
    ) -> int:
        """Append ``run`` with the complete messages at ``pos``; give the position after them. The hot path."""
        append = run.append
        size, line_max, payload_max = len(data), self._line_max, self._payload_max
        while True:
            if match := _match_plain(data, pos):
                subject, reply, total = match.groups(b"")
                head = b""
            elif match := _match_header(data, pos):
                subject, reply, head, total = match.groups(b"")
            elif match := _match_queues(data, pos):
                _, subject, reply, head, total = match.groups(b"")
            else:
                break
            body = match.end()
            end = body + int(total)
            if body - pos > line_max or end - body > payload_max:
                self._failure = f"{data[pos : pos + 80]!r} exceeds {line_max} bytes of line, {payload_max} of payload"
                break
            if end + 2 > size:
                line = data[pos:body]
                self._open = _OpenFrame(line, subject, reply, int(head or b"0"), end - body, end + 2 - pos)
                break
            if data[end] != _CR or data[end + 1] != _LF:
                self._failure = f"no CR LF after the payload of {data[pos:body][:80]!r}"
                break
            if head:
                split = body + int(head)
                if split > end:
                    self._failure = f"header longer than the message: {data[pos:body][:80]!r}"
                    break
                append(_new(Message, (subject, reply, data[body:split], data[split:end])))
            else:
                append(_new(Message, (subject, reply, b"", data[body:end])))
            pos = end + 2
        if run:
            events.append(run)
        return pos


def _control(line: bytes) -> Event | None:
    """The event of one control line that announces no payload; None if it is none."""
    match line[:4]:
        case b"PING" if line == PING_FRAME:
            return Ping()
        case b"PONG" if line == PONG_FRAME:
            return Pong()
        case b"LS+ " | b"LS- ":
            return _interest(line)
        case b"INFO":
            info = _match_info(line)
            return Info(info[1]) if info else None
        case b"-ERR":
            error = _match_error(line)
            return Err(error[1].decode(errors="replace")) if error else None
    return None


def _interest(line: bytes) -> Interest | None:
    match = _match_interest(line)
    if match is None:
        return None
    subject, queue, weight, gone, gone_queue = match.groups(b"")
    if gone:
        return Interest(gone, gone_queue, 0)
    return Interest(subject, queue, max(1, int(weight or b"1")))


def encode_message(
    subject: bytes, payload: bytes, *, header: bytes = b"", reply: bytes = b"", queues: tuple[bytes, ...] = ()
) -> bytes:
    """The frame that delivers one message at the hub, to plain subscribers and to one member of each of ``queues``.

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
        _check_token("queue", queue)
    indicator = b"+ %b" % reply if reply else b"|"
    return b"%b %b %b" % (subject, indicator, b" ".join(queues))


def subject_of(frame: bytes) -> bytes:
    """Where an encoded message goes."""
    return frame[5 : frame.index(b" ", 5)]


def with_queues(frames: bytes, queues: Iterable[bytes]) -> bytes:
    """The same messages, which named no queue groups, for one member of each of these groups too."""
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
    """The frame that tells the hub that we listen; ``ValueError`` for what would break it."""
    _check_token("subject", subject)
    if not queue:
        return b"LS+ %b\r\n" % subject
    _check_token("queue", queue)
    return b"LS+ %b %b 1\r\n" % (subject, queue)


def encode_unsubscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """The frame that ends what :func:`encode_subscribe` began."""
    _check_token("subject", subject)
    if not queue:
        return b"LS- %b\r\n" % subject
    _check_token("queue", queue)
    return b"LS- %b %b\r\n" % (subject, queue)


def _check_token(what: str, token: bytes) -> None:
    if token.split() != [token]:
        raise ValueError(f"not a {what}: {token!r}")
