"""Effects of consumers as leaf frames.

A message delivered to an inbox keeps its stream subject: of a reply ``<ack subject>@<subject>`` the hub shows the
client the part behind the ``@`` as the subject and the part before it as the reply (nats-server's ``jsAckDeliverIdx``).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from conf.limits import CONSUMER_FRAME_MESSAGES
from consumers.engine.ack_subject import ack_prefix
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.delivery_run import EMPTY_BLOCK, MSG_SIZE
from consumers.machine.effects import Advisory, Deliver, Reply, Status
from delta_store.dialect.json_writer import write_json
from delta_store.dialect.times import format_time
from delta_store.values.stream_message import MessageRun, StreamMessage
from ingest.protocol.leaf_protocol import encode_message

ADVISORY_TYPE: Final = "io.nats.jetstream.advisory.v1."
METRIC_TYPE: Final = "io.nats.jetstream.metric.v1."
Queues = Callable[[bytes], frozenset[bytes]]
"""Returns the queue groups with interest in a subject."""


def delivered(stream: str, consumer: ConsumerMachine, run: Sequence[Deliver], *, queues: Queues) -> Iterator[bytes]:
    """Yield the frames of one consumer's deliveries, in its order, also if several receivers take turns.

    They are yielded in parts, so that the hub works on the first while the next is encoded.
    """
    if len(run) == 1:
        start, end, columns = _columns(stream, consumer, run[0], queues)
        for first in range(0, len(columns.seqs), CONSUMER_FRAME_MESSAGES):
            part = slice(first, first + CONSUMER_FRAME_MESSAGES)
            yield _joined(start, end, _Columns._make([column[part] for column in columns]))
        return
    framed = (zip(one.consumer_seqs, _frames(*_columns(stream, consumer, one, queues)), strict=False) for one in run)
    yield b"".join(frame for _, frame in sorted(chain.from_iterable(framed)))


def _joined(start: str, end: str, run: "_Columns") -> bytes:
    if run.counts.count(1) == len(run.counts) and not any(run.headers):
        return _plain(start, end, run)
    return b"".join(_frames(start, end, run))


def _columns(stream: str, consumer: ConsumerMachine, effect: Deliver, queues: Queues) -> "tuple[str, str, _Columns]":
    """Return the text before the numbers of each frame's reply, that behind its subject, and the columns."""
    config, messages = consumer.config, effect.messages
    named = b" ".join(_receivers(consumer, effect.subject, queues)).decode()
    start = f"{effect.subject.decode()} {'+ ' if named else ''}{ack_prefix(stream, config.name).decode()}"
    end = f" {named}" if named else ""
    if config.headers_only or effect.pin_id is not None:
        messages = [_changed(one, headers_only=config.headers_only, pin_id=effect.pin_id) for one in messages]
    columns = MessageRun.of(messages).columns
    return start, end, _Columns(*columns, effect.counts, effect.consumer_seqs, effect.pendings)


def _frames(start: str, end: str, run: "_Columns") -> list[bytes]:
    frames = []
    for subject, seq, ts_ns, headers, data, number, cseq, pending in zip(*run, strict=False):
        place = f"{start}{number}.{seq}.{cseq}.{ts_ns}.{pending}@{subject}{end}"
        if headers:
            line = f"HMSG {place} {len(headers)} {len(headers) + len(data)}\r\n".encode()
            frames.append(b"".join((line, headers, data, b"\r\n")))
        else:
            frames.append(b"".join((f"LMSG {place} {len(data)}\r\n".encode(), data, b"\r\n")))
    return frames


class _Columns(NamedTuple):
    """The fields of frames, in columns."""

    subjects: Sequence[str]
    seqs: Sequence[int]
    times: Sequence[int]
    headers: Sequence[bytes | None]
    payloads: Sequence[bytes]
    counts: Sequence[int]
    consumer_seqs: Sequence[int]
    pendings: Sequence[int]


def _plain(start: str, end: str, run: _Columns) -> bytes:
    """Encode first deliveries without headers, the common case."""
    head = f"\r\nLMSG {start}1."
    columns = (run.subjects, run.seqs, run.times, run.payloads, run.consumer_seqs, run.pendings)
    parts = [b""] * (2 * len(run.seqs))
    parts[::2] = [
        f"{head}{seq}.{cseq}.{ts_ns}.{pending}@{subject}{end} {len(data)}\r\n".encode()
        for subject, seq, ts_ns, data, cseq, pending in zip(*columns, strict=False)
    ]
    parts[1::2] = run.payloads
    parts[0] = parts[0][2:]
    return b"".join((*parts, b"\r\n"))


def _receivers(consumer: ConsumerMachine, subject: bytes, queues: Queues) -> tuple[bytes, ...]:
    """Return the queue groups of a message to this subject: all with interest, and the deliver group in any case."""
    config, named = consumer.config, queues(subject)
    if config.deliver_group and subject == config.deliver_subject.encode():
        named |= {config.deliver_group.encode()}
    return tuple(sorted(named))


def status(consumer: ConsumerMachine, effect: Status, *, queues: Queues) -> bytes:
    """Return the frame of a status."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in effect.headers)
    header = f"NATS/1.0 {effect.code} {effect.text}\r\n{lines}\r\n".encode()
    named = _receivers(consumer, effect.subject, queues)
    return encode_message(effect.subject, b"", header=header, reply=effect.reply, queues=named)


def reply(effect: Reply) -> bytes:
    """Return the frame of the reply to a double ack."""
    return encode_message(effect.subject, effect.body)


def advisory(effect: Advisory, *, id_: str, now_ns: int, domain: str = "") -> bytes:
    """Return the payload of an advisory or a metric."""
    kind = (METRIC_TYPE if effect.subject.startswith("$JS.EVENT.METRIC.") else ADVISORY_TYPE) + effect.kind
    shown = {"type": kind, "id": id_, "timestamp": format_time(now_ns), **effect.fields}
    if domain:
        shown["domain"] = domain
    return write_json(shown)


def _changed(message: StreamMessage, *, headers_only: bool, pin_id: str | None) -> StreamMessage:
    """Return the message with the headers that its consumer adds, without payload for ``headers_only``."""
    added = [f"{MSG_SIZE}: {len(message.data)}\r\n"] if headers_only else []
    added += [f"Nats-Pin-Id: {pin_id}\r\n"] if pin_id is not None else []
    block = (message.headers or EMPTY_BLOCK)[:-2] + "".join(added).encode() + b"\r\n"
    return message._replace(headers=block, data=b"" if headers_only else message.data)
