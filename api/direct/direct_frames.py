"""The replies of Direct Get over NATS, as leaf frames. Pure.

Rules: server/stream.go of nats-server 2.15 (getDirectRequest, getDirectMulti), ADR-31.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from api.direct.direct_request import DirectRequest, status_block
from delta_store.dialect.times import format_time
from delta_store.reading.read_plan import Matching, PagePlan
from delta_store.values.oldest_point import OldestPoint
from delta_store.values.stream_message import StreamMessage

NOT_FOUND: Final = status_block("404 Message Not Found")
NO_RESULTS: Final = status_block("404 No Results")
TOO_MANY_RESULTS: Final = status_block("413 Too Many Results")
NO_SUCH_CUT: Final = status_block("400 No Such Cut")
_SECOND: Final = 1_000_000_000
_NO_FIELDS: Final = b"NATS/1.0\r\n"


class PageFrames:
    """The reply with a page of messages: :meth:`frames` part by part until ``full``, then :meth:`end`."""

    __slots__ = ("_failed", "_no_hdr", "_page", "_pending", "_sent_bytes", "full", "last_sent")

    def __init__(self, page: PagePlan, *, no_hdr: bool = False) -> None:
        seqs = page.seqs
        self._page = page
        self._no_hdr = no_hdr and page.up_to_seq is None
        self._pending = seqs.count(seqs.start) if isinstance(seqs, Matching) else len(seqs)
        self._sent_bytes = 0
        self._failed = b""
        self.last_sent = 0
        self.full = False
        """Whether the page's bytes are reached, so that nothing more may be sent."""

    def fail(self, status: bytes) -> None:
        """End the series with this header block."""
        self._failed, self.full = status, True

    def frames(self, messages: Sequence[StreamMessage], reply: bytes) -> bytes:
        """Return the encoded replies; stops, and is ``full``, behind the message that reaches the page's bytes."""
        if self._no_hdr:
            return self._bare(messages, reply)
        frames: list[bytes] = []
        add, stream, pending, last = frames.append, self._page.stream, self._pending, self.last_sent
        sent, most = self._sent_bytes, self._page.bytes_max
        for subject, seq, ts_ns, headers, data in messages:
            pending = pending - 1 if pending else 0
            seconds, nanos = divmod(ts_ns, _SECOND)
            stamp = f"{_second(seconds)}.{nanos:09d}".rstrip("0") if nanos else _second(seconds)
            lines = (
                f"Nats-Stream: {stream}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
                f"Nats-Time-Stamp: {stamp}Z\r\nNats-Num-Pending: {pending}\r\n"
                f"Nats-Last-Sequence: {last}\r\n\r\n"
            ).encode()
            head = headers[:-2] if headers else _NO_FIELDS
            size, payload = len(head) + len(lines), len(data)
            add(b"HMSG %b %d %d\r\n%b%b%b\r\n" % (reply, size, size + payload, head, lines, data))
            last = seq
            sent += payload + (len(subject) if subject.isascii() else len(subject.encode()))
            if headers:
                sent += len(headers)
            if sent >= most:
                self.full = True
                break
        self._pending, self.last_sent, self._sent_bytes = pending, last, sent
        return b"".join(frames)

    def _bare(self, messages: Sequence[StreamMessage], reply: bytes) -> bytes:
        """Return payloads without headers; the pending count is unchanged."""
        frames: list[bytes] = []
        for subject, seq, _, headers, data in messages:
            frames.append(plain_frame(data, reply))
            self.last_sent = seq
            self._sent_bytes += len(subject.encode()) + len(data) + len(headers or b"")
            if self._sent_bytes >= self._page.bytes_max:
                self.full = True
                break
        return b"".join(frames)

    def end(self) -> bytes:
        """Return the header block that ends the reply: end of batch, or not found if nothing was sent."""
        if self._failed:
            return self._failed
        page, up_to = self._page, ""
        if page.up_to_seq is not None:
            up_to = f"Nats-UpTo-Sequence: {page.up_to_seq}\r\n"
        elif page.most and not self.last_sent:
            return NOT_FOUND
        elif isinstance(page.seqs, Matching) and page.seqs.index.last_seq > page.seqs.up_to:
            self._pending = page.seqs.count(max(page.seqs.start, self.last_sent + 1))
        counts = f"Nats-Num-Pending: {self._pending}\r\nNats-Last-Sequence: {self.last_sent}\r\n"
        return f"NATS/1.0 204 EOB\r\n{counts}{up_to}\r\n".encode()


def one_frame(stream: str, message: StreamMessage, reply: bytes, *, no_hdr: bool = False) -> bytes:
    """Return the reply with a single message, which has no end of batch."""
    subject, seq, ts_ns, headers, data = message
    if no_hdr:
        return plain_frame(data, reply)
    lines = (
        f"Nats-Stream: {stream}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: {_stamp(ts_ns)}\r\n\r\n"
    ).encode()
    head = headers[:-2] if headers else _NO_FIELDS
    size = len(head) + len(lines)
    return b"HMSG %b %d %d\r\n%b%b%b\r\n" % (reply, size, size + len(data), head, lines, data)


def nothing(asked: DirectRequest) -> bytes:
    """Return the header block of a reply without messages."""
    return NO_RESULTS if asked.multi_last else NOT_FOUND


def past_horizon_block(oldest: OldestPoint | None) -> bytes:
    """Return the status of a point that is not kept any more, with the oldest one that is, where it is known."""
    lines = ["NATS/1.0 410 Past History Horizon"]
    if oldest is not None:
        lines += [f"Silt-Oldest-Sequence: {oldest.seq}"] if oldest.seq else []
        lines += [f"Silt-Oldest-Time: {oldest.time}"] if oldest.from_ns else []
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def status_frame(block: bytes, reply: bytes) -> bytes:
    """Return a reply that is only a header block."""
    return b"HMSG %b %d %d\r\n%b\r\n" % (reply, len(block), len(block), block)


def no_responders_frame(subject: bytes, reply: bytes) -> bytes:
    """Return the no-responders status that a server sends if ``subject`` has no interest."""
    return status_frame(b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject, reply)


def plain_frame(data: bytes, reply: bytes) -> bytes:
    """Return a reply without a header block."""
    return b"LMSG %b %d\r\n%b\r\n" % (reply, len(data), data)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return format_time(seconds * _SECOND)[:-1]


def _stamp(ts_ns: int) -> str:
    seconds, nanos = divmod(ts_ns, _SECOND)
    return f"{_second(seconds)}.{nanos:09d}".rstrip("0") + "Z" if nanos else _second(seconds) + "Z"
