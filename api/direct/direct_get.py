"""Direct Get decided: which messages answer a request, and the very bytes of the replies.

Pure. :func:`plan` turns a request into what must be read; a :class:`Series` then says which sequences it wants next,
takes the messages and gives the frames, so that whoever drives it is free to read from memory, threads or tables.
Rules: server/stream.go of nats-server 2.15 (getDirectRequest, getDirectMulti), ADR-31.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final, NamedTuple

from api.direct.direct_request import DirectRequest, status_block
from conf.limits import (
    DIRECT_GET_BATCH_BYTES,
    DIRECT_GET_STEP_BYTES,
    DIRECT_GET_STEP_MESSAGES,
    MULTI_LAST_MORE_SUBJECTS_MAX,
    MULTI_LAST_SUBJECTS_MAX,
)
from delta_store.dialect.times import format_time
from delta_store.index.matching import (
    TooMany,
    count_matching,
    iter_matching,
    last_by_subject,
    last_per_subject,
    next_matching,
)
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.stream_state import StreamState
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter, valid

NOT_FOUND: Final = status_block("404 Message Not Found")
NO_RESULTS: Final = status_block("404 No Results")
TOO_MANY_RESULTS: Final = status_block("413 Too Many Results")
PAST_HORIZON: Final = status_block("410 Past History Horizon")
POINT_IN_TIME: Final = "silt.point_in_time"
"""Key of the stream's metadata: ``live`` asks for nats-server's own answer to ``up_to_*``, made from what is left."""
_SECOND: Final = 1_000_000_000
_FEW: Final = 32
_NO_FIELDS: Final = b"NATS/1.0\r\n"


class Wire(NamedTuple):
    """The verbs of one kind of link."""

    with_header: bytes
    plain: bytes


LEAF: Final = Wire(b"HMSG ", b"LMSG ")
CLIENT: Final = Wire(b"HPUB ", b"PUB ")


class One(NamedTuple):
    """A single message; there is no end-of-batch."""

    stream: str
    stream_id: int
    seq: int
    no_hdr: bool


class Past(NamedTuple):
    """A ``multi_last`` whose answer the live index can't give: it needs the tables' history."""

    stream: str
    request: DirectRequest
    up_to_seq: int | None
    up_to_ts_ns: int | None

    @property
    def subjects_max(self) -> int:
        """How many subjects the answer may hold."""
        return _subjects_max(self.request)


@dataclass(slots=True)
class Series:
    """A batch or multi-subject answer under way: ``wanted`` and ``frames`` in turn while ``open``, then ``end``."""

    stream: str
    stream_id: int
    left: int
    """Messages that may still be sent."""
    max_bytes: int
    pending: int
    no_hdr: bool = False
    up_to_seq: int | None = None
    """Of a multi-subject answer, else None."""
    seqs: Sequence[int] = ()
    """Of a multi-subject answer: all it consists of."""
    index: StreamIndex | None = None
    """Of a batch: where the next sequences come from."""
    chosen: SubjectFilter | None = None
    next_seq: int = 0
    valid_through: int = 0
    """The stream's last sequence when the batch began: it gets nothing newer."""
    loops: bool = True
    """False for a negative batch: nothing but the end of the batch is sent."""
    last_sent: int = 0
    sent_bytes: int = 0
    taken: int = 0
    """How many of ``seqs`` were handed out."""
    step: int = DIRECT_GET_STEP_MESSAGES
    """How many messages to ask for at a time, by their average size."""
    full: bool = False
    """Whether ``max_bytes`` is reached: nothing more may be sent, also of what was handed out."""

    failed: bytes = b""
    """What ends it in place of the end of the batch."""

    def fail(self, status: bytes) -> None:
        """End it with this header block."""
        self.failed, self.full = status, True

    @property
    def open(self) -> bool:
        """Whether more is wanted."""
        return self.left > 0 and not self.full

    def wanted(self, most: int) -> list[int]:
        """The next sequences to send, at most so many; closes the series when there are no others."""
        count = min(most, self.left)
        if self.index is None:
            found = list(self.seqs[self.taken : self.taken + count])
            self.taken += count
        else:
            matching = (
                self._few()
                if count <= _FEW and self.chosen is None
                else iter_matching(self.index, self.chosen, self.next_seq)
            )
            found = list(islice(takewhile(self.valid_through.__ge__, matching), count))
            self.next_seq = found[-1] + 1 if found else self.next_seq
        self.left = self.left - len(found) if len(found) == count else 0
        return found

    def _few(self) -> Iterator[int]:
        """The next sequences one look-up each: cheaper than a whole stretch of the index when few are wanted."""
        assert self.index is not None
        seq = self.index.live.next(self.next_seq)
        while seq:
            yield seq
            seq = self.index.live.next(seq + 1)

    def frames(self, messages: Sequence[StreamMessage], reply: bytes, *, wire: Wire = LEAF) -> bytes:
        """The encoded replies; stops (and is ``full``) behind the message that reaches ``max_bytes``."""
        if self.no_hdr:
            return self._bare(messages, reply, wire)
        frames: list[bytes] = []
        add, stream, pending, last = frames.append, self.stream, self.pending, self.last_sent
        sent, most, verb = self.sent_bytes, self.max_bytes, wire.with_header + reply
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
            add(b"%b %d %d\r\n%b%b%b\r\n" % (verb, size, size + payload, head, lines, data))
            last = seq
            sent += payload + (len(subject) if subject.isascii() else len(subject.encode()))
            if headers:
                sent += len(headers)
            if sent >= most:
                self.full = True
                break
        self.pending, self.last_sent, self.sent_bytes = pending, last, sent
        return b"".join(frames)

    def _bare(self, messages: Sequence[StreamMessage], reply: bytes, wire: Wire) -> bytes:
        """Payloads without any header; the pending count stays as it was."""
        frames: list[bytes] = []
        for subject, seq, _, headers, data in messages:
            frames.append(plain_frame(data, reply, wire=wire))
            self.last_sent = seq
            self.sent_bytes += _counted(subject, headers, data)
            if self.sent_bytes >= self.max_bytes:
                self.full = True
                break
        return b"".join(frames)

    def end(self) -> bytes:
        """The header block that ends the answer: end of batch, or not found when nothing was sent."""
        if self.failed:
            return self.failed
        if self.up_to_seq is not None:
            up_to = f"Nats-UpTo-Sequence: {self.up_to_seq}\r\n"
        elif self.loops and not self.last_sent:
            return NOT_FOUND
        else:
            up_to = ""
            if self.index is not None and self.index.last_seq > self.valid_through:
                self.pending = count_matching(self.index, self.chosen, max(self.next_seq, self.last_sent + 1))
        counts = f"Nats-Num-Pending: {self.pending}\r\nNats-Last-Sequence: {self.last_sent}\r\n"
        return f"NATS/1.0 204 EOB\r\n{counts}{up_to}\r\n".encode()


Plan = One | Series | Past | bytes
"""What a request comes to; bytes are the header block of a status reply."""


def plan(state: StreamState, request: DirectRequest) -> Plan:
    """Decide from the live index which messages answer the request, or that only the history knows."""
    if request.multi_last:
        return _multi(state, request)
    if request.batch:
        return _batch(state, request)
    seq = _single(state, request)
    return One(state.config.name, state.stream_id, seq, request.no_hdr) if seq else NOT_FOUND


def one_frame(one: One, message: StreamMessage, reply: bytes, *, wire: Wire = LEAF) -> bytes:
    """The reply with a single message."""
    subject, seq, ts_ns, headers, data = message
    if one.no_hdr:
        return plain_frame(data, reply, wire=wire)
    lines = (
        f"Nats-Stream: {one.stream}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: {_stamp(ts_ns)}\r\n\r\n"
    ).encode()
    head = headers[:-2] if headers else _NO_FIELDS
    size = len(head) + len(lines)
    return b"%b%b %d %d\r\n%b%b%b\r\n" % (wire.with_header, reply, size, size + len(data), head, lines, data)


def status_frame(block: bytes, reply: bytes, *, wire: Wire = LEAF) -> bytes:
    """A reply that is only a header block."""
    return b"%b%b %d %d\r\n%b\r\n" % (wire.with_header, reply, len(block), len(block), block)


def no_responders_frame(subject: bytes, reply: bytes, *, wire: Wire = LEAF) -> bytes:
    """What a server sends in place of an answer when nobody listens to ``subject``."""
    return status_frame(b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject, reply, wire=wire)


def plain_frame(data: bytes, reply: bytes, *, wire: Wire = LEAF) -> bytes:
    """A reply without a header block."""
    return b"%b%b %d\r\n%b\r\n" % (wire.plain, reply, len(data), data)


def past_series(past: Past, *, stream_id: int, up_to_seq: int, seqs: Sequence[int]) -> Series | bytes:
    """The answer made from the history: ``seqs`` are all the messages that were the last of their subjects then."""
    return _multi_series(past.stream, stream_id, past.request, (seqs, up_to_seq))


def _single(state: StreamState, request: DirectRequest) -> int:
    """The sequence of the one message asked for, or 0."""
    index = state.index
    start = request.seq if request.start_time_ns is None else index.seq_at_time(request.start_time_ns)
    if request.next_by_subj:
        return next_matching(index, _filter((request.next_by_subj,)), start)
    if start:
        return start if index.subject_of(start) is not None else 0
    if request.last_by_subj == ">":
        return index.last_seq if index.subject_of(index.last_seq) is not None else 0
    return last_by_subject(index, request.last_by_subj)


def _batch(state: StreamState, request: DirectRequest) -> Series:
    index = state.index
    start = request.seq if request.start_time_ns is None else index.seq_at_time(request.start_time_ns)
    chosen = _filter((request.next_by_subj,)) if request.next_by_subj else None
    return Series(
        stream=state.config.name,
        stream_id=state.stream_id,
        left=max(request.batch, 0),
        max_bytes=request.max_bytes or DIRECT_GET_BATCH_BYTES,
        pending=count_matching(index, chosen, start) if start <= index.last_seq else 0,
        no_hdr=request.no_hdr,
        index=index,
        chosen=chosen,
        next_seq=start,
        valid_through=index.last_seq,
        loops=request.batch > 0,
        step=step_of(index),
    )


def _multi(state: StreamState, request: DirectRequest) -> Plan:
    index, up_to, at_ns = state.index, request.up_to_seq, request.up_to_time_ns
    subjects = _filter(request.multi_last)
    truth = state.config.metadata.get(POINT_IN_TIME) != "live"
    past = Past(state.config.name, request, None if at_ns is not None else up_to, at_ns)
    if up_to > index.last_seq and state.config.storage == "file":
        return NO_RESULTS
    if at_ns is not None:
        first = index.seq_at_time(at_ns)
        if truth and _hides_more(index, first):
            return past
        if first <= index.first_seq:
            return NO_RESULTS
        up_to = first - 1
    if truth and 0 < up_to <= index.last_seq and not (_is_now(state, up_to) or untouched(index, up_to, subjects)):
        return past
    try:
        seqs = last_per_subject(index, subjects, up_to or None, limit=_subjects_max(request))
    except TooMany:
        return TOO_MANY_RESULTS
    return _multi_series(
        state.config.name, state.stream_id, request, (seqs, up_to or index.last_seq), step=step_of(index)
    )


def _subjects_max(request: DirectRequest) -> int:
    """How many subjects an answer of ``multi_last`` may hold: nats-server's number, more where the request says so."""
    return min(max(request.max_subjects, MULTI_LAST_SUBJECTS_MAX), MULTI_LAST_MORE_SUBJECTS_MAX)


def _multi_series(
    stream: str,
    stream_id: int,
    request: DirectRequest,
    found: tuple[Sequence[int], int],
    *,
    step: int = DIRECT_GET_STEP_MESSAGES,
) -> Series | bytes:
    seqs, up_to_seq = found
    if not seqs:
        return NO_RESULTS
    wanted = [seq for seq in seqs if seq >= request.seq]
    return Series(
        stream=stream,
        stream_id=stream_id,
        left=min(request.batch, len(wanted)) if request.batch > 0 else len(wanted),
        max_bytes=request.max_bytes or DIRECT_GET_BATCH_BYTES,
        pending=len(wanted),
        up_to_seq=up_to_seq,
        seqs=wanted,
        step=step,
    )


def untouched(index: StreamIndex, up_to_seq: int, subjects: SubjectFilter) -> bool:
    """Whether the live index certainly gives the state at ``up_to_seq``: no message that could matter was removed."""
    if not subjects.filters:
        return True
    later = count_matching(index, None, up_to_seq + 1)
    if index.first_seq <= 1 and index.msgs - later == up_to_seq:
        return True
    if not subjects.is_literal:
        return False
    found = last_per_subject(index, subjects, up_to_seq)
    if not found or len(found) < len(subjects.literals):
        return False
    return count_matching(index, None, found[0]) - later == up_to_seq - found[0] + 1


def step_of(index: StreamIndex) -> int:
    """How many of a stream's messages make a good step: by count, and by bytes where messages are large."""
    average = index.bytes // max(1, index.msgs)
    return max(1, min(DIRECT_GET_STEP_MESSAGES, DIRECT_GET_STEP_BYTES // max(1, average)))


def _is_now(state: StreamState, up_to_seq: int) -> bool:
    """Whether the point is the newest message and nothing has happened since: the past is the present then."""
    return up_to_seq == state.index.last_seq and state.clock_ns == state.index.last_ts


def _hides_more(index: StreamIndex, first: int) -> bool:
    """Whether removed messages may lie between a time and ``first``, the first live message that is not older."""
    return first > 1 and index.subject_of(first - 1) is None


@lru_cache(maxsize=1024)
def _filter(subjects: tuple[str, ...]) -> SubjectFilter:
    """Filters compiled; what is no valid filter matches nothing."""
    return SubjectFilter(subject for subject in subjects if valid(subject))


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return format_time(seconds * _SECOND)[:-1]


def _stamp(ts_ns: int) -> str:
    seconds, nanos = divmod(ts_ns, _SECOND)
    return f"{_second(seconds)}.{nanos:09d}".rstrip("0") + "Z" if nanos else _second(seconds) + "Z"


def _counted(subject: str, headers: bytes | None, data: bytes) -> int:
    """Bytes of a message towards ``max_bytes``."""
    name = len(subject) if subject.isascii() else len(subject.encode())
    return name + len(data) + (len(headers) if headers else 0)
