"""What goes into a consumer's state machine and what comes out: plain values, no IO."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from delta_store.values.stream_message import StreamMessage


class PullRequest(NamedTuple):
    """A CONSUMER.MSG.NEXT request as it came: its body is parsed by the consumer."""

    reply: bytes
    body: bytes
    header: bytes = b""


class Ack(NamedTuple):
    """A message to an ack subject, its subject taken apart."""

    stream_seq: int
    consumer_seq: int
    delivered: int
    """How often the message had been delivered when the acked delivery was made."""
    body: bytes
    reply: bytes = b""
    """Where a double ack wants its answer, empty for none."""
    header: bytes = b""


class Deliver(NamedTuple):
    """Messages for one receiver, in order (equal lengths)."""

    subject: bytes
    """The request's reply subject or the consumer's deliver subject."""
    queue: bytes
    """The deliver group, empty for none."""
    messages: Sequence[StreamMessage]
    consumer_seqs: Sequence[int]
    counts: Sequence[int]
    """How often each has been delivered, this time included."""
    pendings: Sequence[int]
    """Matching messages that are left after each."""
    pin_id: str | None = None
    """``Nats-Pin-Id`` that the messages carry: empty while nobody is pinned, None without a pin policy."""


class Status(NamedTuple):
    """A message of headers only: the status line and its headers."""

    subject: bytes
    code: int
    text: str
    headers: Sequence[tuple[str, str]] = ()
    reply: bytes = b""


class Reply(NamedTuple):
    """An answer that may leave only when the consumer's state is durable (the answer to a double ack)."""

    subject: bytes
    body: bytes = b""


class Advisory(NamedTuple):
    """An event for ``$JS.EVENT.…``: its subject, its type and its fields without type, id and timestamp."""

    subject: str
    kind: str
    fields: dict[str, Any]


class Done(NamedTuple):
    """Stream sequences that this consumer will never deliver again: what interest and workqueue retention act on."""

    seqs: Sequence[int]


class Gone(NamedTuple):
    """The consumer has not been used for its ``inactive_threshold``: it is to be deleted."""


Effect = Deliver | Status | Reply | Advisory | Done | Gone
