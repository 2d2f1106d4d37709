"""What the core is made of, how it publishes, and whom it tells of what: what all its events have in common. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from api.core import consumer_frames
from api.core.effects import CoreEffects, Deferred
from api.jetstream import stream_advisories
from api.jetstream.api_call import NeedMessage
from api.jetstream.responses import ApiAccount
from conf.limits import INTAKE_BYTES_MAX, INTAKE_MESSAGES_MAX
from consumers.engine.effect_desk import Outbox
from consumers.engine.engine import ConsumerEngine
from consumers.machine.effects import Advisory, Reply
from delta_store.config import api_errors
from delta_store.streams.catalog import Catalog
from ingest.protocol.interest import InterestTable
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Gathering
from ingest.publishing.pub_ack import pub_acks
from ingest.publishing.publish import decide


class Answers(Protocol):
    """Answers that need payloads: given from memory, or begun and left to be read."""

    def direct(self, request: WireMessage) -> bytes | Deferred | None:
        """Frames of a Direct Get's answer, or what is left to read."""
        ...

    def stored(self, wanted: NeedMessage, reply: bytes) -> bytes | Deferred:
        """The frame that holds one stored message, or what is left to read."""
        ...


@dataclass(frozen=True, slots=True)
class HubView:
    """What is known of the hub."""

    interest: InterestTable
    payload_max: Callable[[], int]
    """Bytes of header and payload that one message may have."""


class CoreParts:
    """Streams, consumers and the group that gathers. Every time is given, in nanoseconds since 1970."""

    def __init__(
        self,
        catalog: Catalog,
        answers: Answers,
        hub: HubView,
        *,
        new_id: Callable[[], str],
        settling: Callable[[], Mapping[str, object]] = dict,
        is_full: Callable[[], bool] = bool,
    ) -> None:
        """``is_full`` says whether more is unsettled than may be, ``settling`` what the API tells of that."""
        self.catalog = catalog
        self.gathering = Gathering()
        self.account = ApiAccount(settling=settling)
        """What the API says of itself."""
        self.consumers = ConsumerEngine(
            catalog,
            interested=hub.interest.has_interest,
            listened_to=hub.interest.listens,
            new_id=new_id,
            rows=lambda: self.gathering.group.rows,
        )
        self._answers = answers
        self._hub = hub
        self._new_id = new_id
        self._is_full = is_full
        self._effects = CoreEffects()
        self._outgoing: Outbox = []
        self._domain_api = f"$JS.{catalog.domain}.API.".encode() if catalog.domain else b"$JS.API."

    @property
    def speaks(self) -> bool:
        """Whether consumers have said something that :meth:`outgoing` has yet to give."""
        return bool(self._outgoing or self.consumers.outbox)

    def outgoing(self, now_ns: int) -> Outbox:
        """Deliveries and statuses, which show durable messages alone: to be sent at once, in this order."""
        self._sort_out(now_ns)
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _decided(self) -> CoreEffects:
        effects = self._effects
        if effects:
            self._effects = CoreEffects()
        return effects

    def _publish(self, run: Sequence[WireMessage], now_ns: int) -> None:
        gathering = self.gathering
        if gathering.blocked is not None:
            self._refuse(run, api_errors.INSUFFICIENT_STORAGE.error)
        elif (
            gathering.pending_rows > INTAKE_MESSAGES_MAX
            or gathering.pending_bytes > INTAKE_BYTES_MAX
            or self._is_full()
        ):
            self._refuse(run, None)
        else:
            decide(self.catalog, run, now_ns, gathering.group)
            self.consumers.stored()
            self._tell_abandoned(now_ns)

    def _refuse(self, run: Sequence[WireMessage], error: api_errors.ApiRefusal | None) -> None:
        """Answer publishes that are not looked at: the disk is full (``error``), or too many are waiting (None)."""
        for message in run:
            state = self.catalog.stream_of(message.subject.decode(errors="replace"))
            if state is not None and message.reply and not state.config.no_ack:
                acks = pub_acks(state.name, self.catalog.domain)
                refusal = acks.failed(message.reply, error) if error else acks.busy(message.reply)
                self._effects.frames.append(refusal)

    def _tell_abandoned(self, now_ns: int) -> bool:
        told = stream_advisories.abandoned_batches(self.gathering.group)
        for advisory in told:
            self._advise(advisory, now_ns)
        return bool(told)

    def _sort_out(self, now_ns: int) -> None:
        """Put what consumers have said where it leaves: answers with the group, the rest by :meth:`outgoing`."""
        if not self.consumers.outbox:
            return
        outbox = self.consumers.outbox.copy()
        self.consumers.outbox.clear()
        for one in outbox:
            effect = one[1]
            if isinstance(effect, Reply):
                self.gathering.group.replies.append(consumer_frames.reply(effect))
            elif isinstance(effect, Advisory):
                self._advise(effect, now_ns)
            else:
                self._outgoing.append(one)

    def _tells(self, subject: str) -> bool:
        """Whether anyone listens to a subject of advisories, or a stream keeps them."""
        return self._hub.interest.has_interest(subject.encode()) or self.catalog.stream_of(subject) is not None

    def _advise(self, effect: Advisory, now_ns: int) -> None:
        """Send an advisory, if anyone listens or a stream keeps it, when what it tells of is durable.

        A leaf link does not hear what it sends itself: where a stream keeps it, it is stored as if a client had
        published it.
        """
        subject = effect.subject.encode()
        heard, kept = self._hub.interest.has_interest(subject), self.catalog.stream_of(effect.subject) is not None
        if not (heard or kept):
            return
        payload = consumer_frames.advisory(effect, id_=self._new_id(), now_ns=now_ns, domain=self.catalog.domain)
        if heard:
            self.gathering.group.replies.append(encode_message(subject, payload))
        if kept:
            self._publish([WireMessage(subject, b"", b"", payload)], now_ns)
