"""A run of messages to deliver, in columns, with the numbers of their ack subjects."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from consumers.machine.effects import Deliver
from delta_store.index.segments import Ints
from delta_store.values.stream_message import MessageRun, StreamMessage

EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"
MSG_SIZE: Final = "Nats-Msg-Size"
"""The header with the payload's size, in place of the payload, for ``headers_only``."""
_POWERS = np.array([10**exponent for exponent in range(1, 19)], np.int64)


class DeliveryRun:
    """Messages in the order of delivery; columns of equal length."""

    __slots__ = ("_headers_only", "_prefix", "_sizes", "again", "counts", "first_cseq", "messages", "pendings", "seqs")

    def __init__(
        self,
        messages: Sequence[StreamMessage],
        seqs: Sequence[int],
        *,
        counts: list[int],
        left: int,
        prefix: int,
        headers_only: bool = False,
    ) -> None:
        """``counts`` are those of the redeliveries, which come first; ``left`` is the number of undelivered messages.

        ``prefix`` is the length of an ack subject's fixed part; ``headers_only`` replaces payloads by their size.
        """
        self.messages = messages
        self.seqs = seqs
        self.again = len(counts)
        """Number of redeliveries, which come first."""
        fresh = len(seqs) - self.again
        behind = range(left - 1, left - 1 - fresh, -1)
        self.counts: Sequence[int] = counts + [1] * fresh
        self.pendings: Sequence[int] = [left] * self.again + [*behind] if counts else behind
        self.first_cseq = 0
        self._prefix = prefix
        self._headers_only = headers_only
        self._sizes: list[int] | None = None

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each message as nats-server counts them: subject, ack subject, headers and payload."""
        if self._sizes is None:
            subjects, seqs, times, blocks, payloads = MessageRun.of(self.messages).columns
            cseqs = range(self.first_cseq, self.first_cseq + len(seqs))
            columns = (_digits(seqs), _digits(cseqs), _digits(times), _digits(self.pendings), _digits(self.counts))
            tails = np.sum(columns, axis=0).tolist()
            fixed = self._prefix + len("....")
            content = _announced if self._headers_only else _whole
            self._sizes = [
                fixed + tail + len(subject.encode()) + content(headers, data)
                for tail, subject, headers, data in zip(tails, subjects, blocks, payloads, strict=True)
            ]
        return self._sizes

    def part(
        self, subject: bytes, places: range | list[int], *, queue: bytes = b"", pin_id: str | None = None
    ) -> Deliver:
        """Return the effect that delivers the messages at ascending ``places`` to one receiver."""
        first, last = places[0], places[-1]
        messages, counts, pendings = self.messages, self.counts, self.pendings
        cseqs: Sequence[int]
        if last - first + 1 == len(places):
            cseqs = range(self.first_cseq + first, self.first_cseq + last + 1)
            if len(places) < len(self.seqs):
                cut = slice(first, last + 1)
                messages, counts, pendings = messages[cut], counts[cut], pendings[cut]
        else:
            columns = MessageRun.of(messages).columns
            picked = [[column[place] for place in places] for column in columns]
            messages = MessageRun(tuple(picked))  # type: ignore[arg-type]
            counts, pendings = [counts[place] for place in places], [pendings[place] for place in places]
            cseqs = [self.first_cseq + place for place in places]
        return Deliver(subject, queue, messages, cseqs, counts, pendings, pin_id)


def _whole(headers: bytes | None, data: bytes) -> int:
    return len(headers or b"") + len(data)


def _announced(headers: bytes | None, data: bytes) -> int:
    """Return the bytes of a header block with the payload's size in it, without payload."""
    return len(headers or EMPTY_BLOCK) + len(f"{MSG_SIZE}: {len(data)}\r\n")


def _digits(values: Sequence[int]) -> Ints:
    """Return the number of digits of each value; a negative one counts as 0."""
    counted: Ints = np.searchsorted(_POWERS, np.asarray(values, np.int64), side="right") + 1
    return counted


def sequences(messages: Sequence[StreamMessage]) -> Sequence[int]:
    """Return the sequences of messages."""
    return messages.seqs if isinstance(messages, MessageRun) else [message[1] for message in messages]
