"""One copy's consumer at its origin as a state machine: time and messages in, frames and what to store out. Pure.

Theory of operation. The copy WAITS for its next try, has ASKED for a consumer, or HEARS what that delivers. Each try
has an inbox and a deliver subject of its own, so that nothing of an earlier one is taken for its own. Messages carry
the consumer's own sequence: where one is missing, or a heartbeat tells that one is, or heartbeats stay out, a new
consumer begins at the exact next sequence of the origin. That is recorded in the copying stream, so it survives both
sides.

Invariant: flow control is answered behind what was stored before it, with the sequences of that.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from conf.limits import (
    MIRROR_CAUGHT_UP,
    ORIGIN_ANSWER_SECONDS,
    ORIGIN_ASK_SECONDS,
    ORIGIN_BACKOFF_SECONDS,
    ORIGIN_BACKOFF_SECONDS_MAX,
    ORIGIN_SILENCE_SECONDS,
    ORIGIN_STALLS_MAX,
)
from delta_store.config import api_errors
from delta_store.streams.copy_links import CopyLink
from delta_store.streams.heard_origin import HeardOrigin
from delta_store.values.stream_message import MessageRun, StreamMessage
from ingest.origins import origin_request
from ingest.origins.origin_messages import (
    Json,
    header_number,
    header_value,
    is_control,
    read_answer,
    read_delivery,
)
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

_INBOX: Final = "$JSC.R."
_RECREATED: Final = api_errors.stream_identity_mismatch("").err_code
_TOO_OLD: Final = {api_errors.REQUIRED_API_LEVEL.err_code, api_errors.invalid_json("").err_code}
_FLOW: Final = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"


class CopyPhase(Enum):
    """What a copy does."""

    WAITS = auto()
    ASKED = auto()
    HEARS = auto()


class FromOrigin(NamedTuple):
    """What comes of messages of the origin."""

    run: MessageRun
    """To be stored, in order, with the origin's subjects, sequences and times."""
    replies: tuple[bytes, ...] = ()
    """Frames that may leave when the run is durable."""
    begins: int = 0
    """Of a mirror: the sequence to go on with, as the origin has nothing before; 0 for the next."""
    frames: tuple[bytes, ...] = ()
    """Frames to send at once."""
    caught_up: bool = False
    """Of a mirror: whether its origin has next to nothing left for it."""


_NOTHING: Final = MessageRun.of(())


class OriginConsumer:
    """The consumer of one mirror or source; times are seconds of a monotonic clock."""

    def __init__(self, link: CopyLink, *, domain: str, new_id: Callable[[], str], now: float) -> None:
        """``domain`` is Silt's own, empty for none; ``new_id`` returns a random text of letters and digits."""
        self.link = link
        self.phase = CopyPhase.WAITS
        self.subjects: frozenset[bytes] = frozenset()
        """The subjects to be subscribed to."""
        position = link.target.sources.get(link.label)
        self.identity = position.identity if position is not None else ""
        self._domain = domain
        self._new_id = new_id
        self._due = now
        """When the phase ends without an event."""
        self._asked_at = now - ORIGIN_ASK_SECONDS
        self._failures = 0
        self._level = origin_request.first_level(link)
        self._inbox = self._deliver = self._asked_for = b""
        self._consumer = ""
        self._consumer_seq = self._seq = 0
        self._stall, self._stalls = b"", 0

    @property
    def heard(self) -> HeardOrigin:
        """What stream info shows of it."""
        return self.link.target.heard.setdefault(self.link.label, HeardOrigin())

    def look(self, now: float) -> tuple[bytes, ...]:
        """Do what is due; return the frames to send."""
        if now < self._due:
            return ()
        if self.phase is CopyPhase.WAITS:
            return self._ask(now)
        self.give_up(now, failed=self.phase is CopyPhase.ASKED)
        return ()

    def begin_anew(self, now: float) -> None:
        """Ask for a new consumer soon, as the link to the origin was away."""
        self._failures = 0
        self.give_up(now)

    def give_up(self, now: float, *, failed: bool = False, after: float = 0.0) -> None:
        """Leave the consumer alone and ask for another: soon, or after a failed try later each time."""
        self._failures += failed
        backoff = min(self._failures * ORIGIN_BACKOFF_SECONDS, ORIGIN_BACKOFF_SECONDS_MAX)
        self.phase, self.subjects = CopyPhase.WAITS, frozenset()
        self._inbox = self._deliver = b""
        self._due = max(now + after, self._asked_at + ORIGIN_ASK_SECONDS) + backoff

    def farewell(self) -> bytes:
        """Return the frame that deletes the consumer, for a copy that is no more; empty where it is not its own."""
        if self.link.source.consumer is not None:
            return b""
        subject = origin_request.delete_subject(self.link, self._domain)
        return encode_message(subject.encode(), b"", reply=f"{_INBOX}{self._new_id()}".encode())

    def take(self, messages: Sequence[WireMessage], now: float) -> FromOrigin:
        """Take messages of the subscribed subjects, in the link's order."""
        found: list[StreamMessage] = []
        replies: list[bytes] = []
        frames: list[bytes] = []
        begins, caught_up = 0, False
        for message in messages:
            if message.subject == self._inbox:
                frames += self._answered(message, now)
                if not self.link.label and self.phase is CopyPhase.HEARS and self._seq > self._copied():
                    begins = self._seq + 1
            elif message.subject == self._deliver:
                self._due = now + ORIGIN_SILENCE_SECONDS
                if is_control(message):
                    replies += self._control(message, now)
                else:
                    caught_up |= self._delivered(message, found, now)
        run = MessageRun.of(found) if found else _NOTHING
        return FromOrigin(run, tuple(replies), begins, tuple(frames), caught_up)

    def _ask(self, now: float) -> tuple[bytes, ...]:
        token, named = self._new_id(), self.link.source.consumer
        if named is not None:
            deliver_to, subject, body = named.deliver_subject, origin_request.reset_subject(self.link), b""
        else:
            deliver_to = origin_request.deliver_subject(self.link, token)
            start = origin_request.start_of(self.link, recreated=self.heard.recreated)
            subject, body = origin_request.create_request(
                self.link, domain=self._domain, start=start, deliver_to=deliver_to, level=self._level, token=token
            )
        header = origin_request.request_header(self._level, self.identity)
        self.phase, self._asked_at, self._due = CopyPhase.ASKED, now, now + ORIGIN_ANSWER_SECONDS
        self._inbox, self._deliver, self._asked_for = f"{_INBOX}{token}".encode(), b"", deliver_to.encode()
        self.subjects = frozenset((self._inbox,))
        return (encode_message(subject.encode(), body, header=header, reply=self._inbox),)

    def _answered(self, message: WireMessage, now: float) -> tuple[bytes, ...]:
        """Take the answer to a request; return the frames to send."""
        answer = read_answer(message)
        error = answer.error
        if error is None and self.link.source.consumer is not None and answer.ack_policy != "flow_control":
            kind = api_errors.SOURCE_CONSUMER_ACKS if self.link.label else api_errors.MIRROR_CONSUMER_ACKS
            error = kind.error.as_json()
        if error is not None:
            return self._refused(error, answer.err_code, now)
        heard = self.heard
        heard.recreated = heard.recreated or bool(self.identity and answer.identity not in {"", self.identity})
        self.identity, self._failures, heard.error = answer.identity, 0, None
        self._seq, self._consumer_seq, self._consumer = max(answer.delivered, self._copied()), 0, answer.consumer
        self._stall, self._stalls = b"", 0
        self.phase, self._due = CopyPhase.HEARS, now + ORIGIN_SILENCE_SECONDS
        self._inbox, self._deliver = b"", self._asked_for
        self.subjects = frozenset((self._deliver,))
        return ()

    def _refused(self, error: Json, code: int, now: float) -> tuple[bytes, ...]:
        if code == _RECREATED and self.identity:
            self.heard.recreated, self.identity = True, ""
            self.give_up(now)
            return ()
        if code in _TOO_OLD and self._level:
            self._level = origin_request.SOURCING_LEVEL if self._level > origin_request.SOURCING_LEVEL else 0
            return self._ask(now)
        self.heard.error = error
        self.give_up(now, failed=True)
        return ()

    def _copied(self) -> int:
        """Return the origin's sequence up to which the copying stream has everything."""
        target = self.link.target
        if not self.link.label:
            return target.index.last_seq
        position = target.sources.get(self.link.label)
        return 0 if position is None or self.heard.recreated else position.seq

    def _control(self, message: WireMessage, now: float) -> tuple[bytes, ...]:
        """Take a heartbeat or a flow control request; return the replies."""
        if message.reply:
            header = _FLOW % (self._consumer_seq, self._seq)
            return (encode_message(message.reply, b"", header=header),)
        said = header_number(message.header, "Nats-Last-Consumer")
        if said and said != self._consumer_seq:
            self.give_up(now)
            return ()
        stalled = header_value(message.header, "Nats-Consumer-Stalled").encode()
        if not stalled:
            self._flows()
            return ()
        self._stall, self._stalls = stalled, self._stalls + 1 if stalled == self._stall else 1
        if self._stalls >= ORIGIN_STALLS_MAX:
            self.heard.error = api_errors.SOURCE_STALLED.error.as_json()
        return (encode_message(stalled, b""),) if b" " not in stalled else ()

    def _delivered(self, message: WireMessage, found: list[StreamMessage], now: float) -> bool:
        """Take a message of the origin; one that does not follow on the last ends the consumer.

        Returns whether a mirror has caught up by it.
        """
        one = read_delivery(message)
        if one is None or one.consumer != self._consumer or one.times > 1:
            return False
        follows = one.consumer_seq == self._consumer_seq + 1
        if one.seq <= self._seq:
            self._consumer_seq += follows
            return False
        if not follows:
            self.give_up(now)
            return False
        self._consumer_seq, self._seq = one.consumer_seq, one.seq
        self.heard.lag = max(one.pending - 1, 0)
        self._flows()
        found.append(StreamMessage(one.subject, one.seq, one.ts_ns, message.header or None, message.payload))
        return not self.link.label and one.pending < MIRROR_CAUGHT_UP

    def _flows(self) -> None:
        if self._stall:
            self._stall, self._stalls = b"", 0
            if self.heard.error == api_errors.SOURCE_STALLED.error.as_json():
                self.heard.error = None
