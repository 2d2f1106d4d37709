"""The intake of the core: clients' publishes, and advisories that streams store. Pure."""

from collections.abc import Callable, Sequence

from api.core import consumer_frames
from api.core.hub_view import HubView
from api.jetstream import stream_advisories
from conf.limits import INTAKE_BYTES_MAX, INTAKE_MESSAGES_MAX
from consumers.engine.engine import ConsumerEngine
from consumers.machine.effects import Advisory
from delta_store.config import api_errors
from delta_store.streams.catalog import Catalog
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Gathering
from ingest.publishing.pub_ack import pub_acks
from ingest.publishing.publish import decide


class Intake:
    """The publishes and advisories added to the gathering group."""

    def __init__(
        self,
        catalog: Catalog,
        gathering: Gathering,
        *,
        hub: HubView,
        consumers: ConsumerEngine,
        new_id: Callable[[], str],
        is_full: Callable[[], bool],
    ) -> None:
        """``is_full`` returns whether too much is unsettled."""
        self.refusals: list[bytes] = []
        """Encoded leaf frames to send at once, as they show no state; the sender empties the list."""
        self._catalog = catalog
        self._gathering = gathering
        self._has_interest = hub.interest.has_interest
        self._consumers = consumers
        self._new_id = new_id
        self._is_full = is_full

    def publish(self, run: Sequence[WireMessage], now_ns: int) -> None:
        """Decide publishes, or refuse them if the disk is full or too much is waiting."""
        gathering = self._gathering
        if gathering.blocked is not None:
            self._refuse(run, api_errors.INSUFFICIENT_STORAGE.error)
        elif (
            gathering.pending_rows > INTAKE_MESSAGES_MAX
            or gathering.pending_bytes > INTAKE_BYTES_MAX
            or self._is_full()
        ):
            self._refuse(run, None)
        else:
            decide(self._catalog, run, now_ns, gathering.group)
            self._consumers.stored()
            self.tell_abandoned(now_ns)

    def tell_abandoned(self, now_ns: int) -> bool:
        """Send advisories of the gathering group's abandoned batches; return whether there are any."""
        told = stream_advisories.abandoned_batches(self._gathering.group)
        for advisory in told:
            self.advise(advisory, now_ns)
        return bool(told)

    def tells(self, subject: str) -> bool:
        """Whether an advisory's subject has interest, or a stream stores it."""
        return self._has_interest(subject.encode()) or self._catalog.routes.stream_of(subject) is not None

    def advise(self, effect: Advisory, now_ns: int) -> None:
        """Send an advisory with the gathering group, if its subject has interest or a stream stores it.

        A leaf link does not receive its own messages: where a stream stores it, it is published as if by a client.
        """
        subject = effect.subject.encode()
        heard, kept = self._has_interest(subject), self._catalog.routes.stream_of(effect.subject) is not None
        if not (heard or kept):
            return
        payload = consumer_frames.advisory(effect, id_=self._new_id(), now_ns=now_ns, domain=self._catalog.domain)
        if heard:
            self._gathering.group.replies.append(encode_message(subject, payload))
        if kept:
            self.publish([WireMessage(subject, b"", b"", payload)], now_ns)

    def _refuse(self, run: Sequence[WireMessage], error: api_errors.ApiRefusal | None) -> None:
        """Refuse publishes undecided: the disk is full (``error``), or too many wait (None)."""
        for message in run:
            state = self._catalog.routes.stream_of(message.subject.decode(errors="replace"))
            if state is not None and message.reply and not state.config.no_ack:
                acks = pub_acks(state.name, self._catalog.domain)
                self.refusals.append(acks.failed(message.reply, error) if error else acks.busy(message.reply))
