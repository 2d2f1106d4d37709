"""The events and effects of a consumer's state machine, as values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from delta_store.values.stream_message import StreamMessage


class PullRequest(NamedTuple):
    """A CONSUMER.MSG.NEXT request; the consumer parses its body."""

    reply: bytes
    body: bytes
    header: bytes = b""


class Ack(NamedTuple):
    """A message to an ack subject, with the subject parsed."""

    stream_seq: int
    consumer_seq: int
    delivered: int
    """Number of the message's deliveries up to the acked one."""
    body: bytes
    reply: bytes = b""
    """Reply subject of a double ack, empty for none."""
    header: bytes = b""


class Deliver(NamedTuple):
    """Messages for one receiver, in order; columns of equal length."""

    subject: bytes
    """The pull's reply subject or the consumer's deliver subject."""
    queue: bytes
    """The deliver group, empty for none."""
    messages: Sequence[StreamMessage]
    consumer_seqs: Sequence[int]
    counts: Sequence[int]
    """Number of deliveries of each, this one included."""
    pendings: Sequence[int]
    """Number of matching messages left after each."""
    pin_id: str | None = None
    """``Nats-Pin-Id`` of the messages: empty while nobody is pinned, None without a pin policy."""


class Status(NamedTuple):
    """A status message: status line and headers, without payload."""

    subject: bytes
    code: int
    text: str
    headers: Sequence[tuple[str, str]] = ()
    reply: bytes = b""


class Reply(NamedTuple):
    """The reply to a double ack, which may leave only when the consumer's state is durable."""

    subject: bytes
    body: bytes = b""


class Advisory(NamedTuple):
    """An event for ``$JS.EVENT.…``: its subject, type, and fields without type, id and timestamp."""

    subject: str
    kind: str
    fields: dict[str, Any]


class Done(NamedTuple):
    """Stream sequences that the consumer will not deliver again, for interest and workqueue retention."""

    seqs: Sequence[int]


class Gone(NamedTuple):
    """The consumer was unused for its ``inactive_threshold`` and is to be deleted."""


Effect = Deliver | Status | Reply | Advisory | Done | Gone
