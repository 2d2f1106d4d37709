"""The NATS wire protocol as a hub speaks it: bytes in, events out. Each kind of link adds its :class:`Dialect`.

Invariant: the events do not depend on how the bytes were cut into chunks, and at most one frame is held between two
chunks (a control line of ``LINK_CONTROL_LINE_BYTES_MAX``, a payload of ``LINK_PAYLOAD_BYTES_MAX``).

Frames that all dialects have, each ended by CR LF::

    INFO <json>      PING      PONG      +OK      -ERR '<text>'
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from conf.limits import LINK_CONTROL_LINE_BYTES_MAX, LINK_PAYLOAD_BYTES_MAX

PING_FRAME: Final = b"PING\r\n"
PONG_FRAME: Final = b"PONG\r\n"
SUBJECT: Final = rb"([^ \t\r\n]++)"
SIZE: Final = rb"([0-9]{1,9}+)"
"""Parts of a dialect's patterns; each has one capturing group."""

_CR, _LF = b"\r\n"
_match_error = re.compile(rb"-ERR ?'?([^\r\n]*?)'?\r\n").fullmatch
_match_info = re.compile(rb"INFO ([^\r\n]+)\r\n").fullmatch
_new = tuple.__new__
_PINNED_BYTES_MIN: Final = 16 * 1024
"""A longer rest of a chunk is held as a view of the whole chunk, a shorter one copied."""


class WireMessage(NamedTuple):
    """One message as received over a link; absent parts are empty."""

    subject: bytes
    reply: bytes
    header: bytes
    """The raw block, from ``NATS/1.0`` to the empty line, as published."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class Info:
    """The hub's INFO: its first frame, sent again after an accepted CONNECT."""

    json: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    """The hub's request for a PONG."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The hub's answer to our PING: it has processed everything sent before that."""


@dataclass(frozen=True, slots=True)
class Err:
    """The hub's ``-ERR``; it closes the connection after most of these."""

    text: str


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription that begins (``added``) or ends at the hub."""

    subject: bytes
    queue: bytes
    """Queue group, empty for a plain subscription."""
    weight: int
    """Members of the queue group, 1 for a plain subscription; 0 when it ends."""

    @property
    def added(self) -> bool:
        """Whether the subscription begins."""
        return self.weight > 0


Event: TypeAlias = list[WireMessage] | Info | Ping | Pong | Err | Interest
"""Consecutive messages come as one list."""


class ProtocolError(ValueError):
    """A frame that no hub sends; the connection can't be used further."""

    def __init__(self, reason: str, events: list[Event] | None = None) -> None:
        super().__init__(reason)
        self.events = events or []
        """The events of the same chunk before the fault."""


MatchMessage: TypeAlias = Callable[[bytes, int], "re.Match[bytes] | None"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The frames that a listener for one kind of link sends beside the common ones."""

    name: str
    """Named in errors."""
    plain: MatchMessage
    """Matches the line of a message without header; groups: subject, reply, size."""
    header: MatchMessage
    """Matches that of one with header; groups: subject, reply, size of the header, size of both."""
    rare: MatchMessage
    """Matches the rare forms; groups: any, then as ``header``."""
    control: Callable[[bytes], Event | None]
    """Decodes a control line that is none of the common ones; None if it is no frame."""
    err_is_final: bool
    """Whether to close the connection after any -ERR, as the hub may keep it open."""


class _OpenFrame(NamedTuple):
    """A message whose control line is complete and whose payload may not be."""

    line: bytes
    subject: bytes
    reply: bytes
    header_bytes: int
    payload_bytes: int
    """Bytes of header block and payload."""
    size: int
    """Bytes of the whole frame."""


class WireParser:
    """The parser of one connection's chunks; after an error it only repeats that error."""

    __slots__ = ("_dialect", "_failure", "_held", "_held_bytes", "_line_max", "_open", "_payload_max")

    def __init__(
        self,
        dialect: Dialect,
        *,
        payload_max: int = LINK_PAYLOAD_BYTES_MAX,
        line_max: int = LINK_CONTROL_LINE_BYTES_MAX,
    ) -> None:
        self._dialect = dialect
        self._payload_max = payload_max
        self._line_max = line_max
        self._held: list[bytes | memoryview] = []
        self._held_bytes = 0
        self._open: _OpenFrame | None = None
        """The frame at the start of the held bytes; None while its control line is incomplete."""
        self._failure = ""

    @property
    def held_bytes(self) -> int:
        """Bytes of the incomplete frame."""
        return self._held_bytes

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes. Raises :class:`ProtocolError`."""
        if self._failure:
            raise ProtocolError(self._failure)
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
            raise ProtocolError(self._failure, events)
        if pos < len(data):
            rest = memoryview(data)[pos:]
            self._held.append(rest if len(rest) > _PINNED_BYTES_MIN else bytes(rest))
            self._held_bytes = len(rest)
        return events

    def _completed_by(self, data: bytes) -> bool:
        """Whether ``data``, the newest chunk, may complete the held frame. Raises :class:`ProtocolError`."""
        if self._open is not None:
            return self._held_bytes >= self._open.size
        if b"\n" not in data and self._held_bytes >= self._line_max:
            self._failure = f"control line longer than {self._line_max} bytes"
            raise ProtocolError(self._failure)
        return b"\n" in data

    def _finish(self, frame: "_OpenFrame", data: bytes, end: int) -> WireMessage:
        """Return the message held in pieces that ends at ``end`` of ``data``. A large payload is copied once.

        Raises :class:`ProtocolError`.
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
            raise ProtocolError(self._failure)
        body = b"".join(pieces)
        split = frame.header_bytes
        return WireMessage(frame.subject, frame.reply, body[:split], body[split:] if split else body)

    def _parse(self, data: bytes, pos: int, events: list[Event], run: list[WireMessage]) -> int:
        """Append the events of all complete frames from ``pos`` on, ``run`` first; return the position after them."""
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
            event = _control(line) or self._dialect.control(line)
            if event is not None:
                events.append(event)
            elif line != b"+OK\r\n":
                self._failure = f"not a {self._dialect.name} frame: {line[:80]!r}"
                return pos
            pos = end

    def _messages(  # noqa: C901  # a call more costs a tenth
        self, data: bytes, pos: int, events: list[Event], run: list[WireMessage]
    ) -> int:
        """Append ``run`` with the complete messages at ``pos``; return the position after them. The hot path."""
        append = run.append
        match_plain, match_header, match_rare = self._dialect.plain, self._dialect.header, self._dialect.rare
        size, line_max, payload_max = len(data), self._line_max, self._payload_max
        while True:
            if match := match_plain(data, pos):
                subject, reply, total = match.groups(b"")
                head = b""
            elif match := match_header(data, pos):
                subject, reply, head, total = match.groups(b"")
            elif match := match_rare(data, pos):
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
                append(_new(WireMessage, (subject, reply, data[body:split], data[split:end])))
            else:
                append(_new(WireMessage, (subject, reply, b"", data[body:end])))
            pos = end + 2
        if run:
            events.append(run)
        return pos


def _control(line: bytes) -> Event | None:
    """Decode a control line that every dialect has; None if it is another."""
    match line[:4]:
        case b"PING" if line == PING_FRAME:
            return Ping()
        case b"PONG" if line == PONG_FRAME:
            return Pong()
        case b"INFO":
            info = _match_info(line)
            return Info(info[1]) if info else None
        case b"-ERR":
            error = _match_error(line)
            return Err(error[1].decode(errors="replace")) if error else None
    return None


def check_token(what: str, token: bytes) -> None:
    """Raise ``ValueError`` for a subject or queue that would break the frame that names it."""
    if token.split() != [token]:
        raise ValueError(f"not a {what}: {token!r}")
