"""Messages on their way out, column by column, with what their ack subjects will say."""

from collections.abc import Sequence

from consumers.effects import Deliver
from delta_store.stored_message import MessageRun, StoredMessage


class DeliveryRun:
    """Messages in the order in which they are delivered; columns of equal length."""

    __slots__ = ("_prefix", "again", "counts", "first_cseq", "messages", "pendings", "seqs")

    def __init__(
        self, messages: Sequence[StoredMessage], seqs: Sequence[int], *, counts: list[int], left: int, prefix: int
    ) -> None:
        """``counts`` belongs to the redeliveries that come first, ``left`` is the number of undelivered messages.

        ``prefix`` is the length of an ack subject's fixed part.
        """
        self.messages = messages
        self.seqs = seqs
        self.again = len(counts)
        """How many redeliveries come first."""
        fresh = len(seqs) - self.again
        behind = range(left - 1, left - 1 - fresh, -1)
        self.counts: Sequence[int] = counts + [1] * fresh
        self.pendings: Sequence[int] = [left] * self.again + [*behind] if counts else behind
        self.first_cseq = 0
        self._prefix = prefix

    def __len__(self) -> int:
        return len(self.seqs)

    def size(self, place: int) -> int:
        """What nats-server counts for a message: subject, ack subject, headers and payload."""
        subject, seq, ts_ns, headers, data = self.messages[place]
        tail = f"{self.counts[place]}.{seq}.{self.first_cseq + place}.{ts_ns}.{max(0, self.pendings[place])}"
        return len(subject.encode()) + self._prefix + len(tail) + len(headers or b"") + len(data)

    def part(self, subject: bytes, places: range | list[int], *, queue: bytes = b"", pin_id: str = "") -> Deliver:
        """The effect that brings the messages at ascending places to one receiver."""
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


def sequences(messages: Sequence[StoredMessage]) -> Sequence[int]:
    """The sequences of messages."""
    return messages.seqs if isinstance(messages, MessageRun) else [message[1] for message in messages]
