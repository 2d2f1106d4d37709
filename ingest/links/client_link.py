"""The client link, for the subjects that a hub withholds from a leaf (``$JS.API.>``, ``$KV.>``).

In the gateway it only receives; replies leave on the leaf link, in one order.
"""

from importlib.metadata import version

from ingest.links.attachment import Access, Attachment, HubLink, Manner
from ingest.links.link_session import LinkSession, OnMessages
from ingest.protocol.client_connect import connect_frame
from ingest.protocol.client_protocol import CLIENT, encode_subscribe, encode_unsubscribe
from ingest.protocol.credentials import Credentials
from ingest.protocol.handshake import HubInfo
from ingest.protocol.link import HubEndpoint, Jitter, OnStatus
from ingest.protocol.subscriptions import Subscriptions


class ClientLink(HubLink):
    """A NATS client's connection that is made again whenever it is lost."""

    def __init__(
        self,
        access: Access,
        name: str,
        on_messages: OnMessages,
        *,
        jitter: Jitter,
        on_status: OnStatus | None = None,
    ) -> None:
        """``name`` is shown at the hub."""
        self._access, self._name = access, name
        self._on_messages = on_messages
        manner = Manner(self._session, check=lambda _: None, connect=self._connect, attached=lambda _: None)
        subscriptions = Subscriptions(encode_subscribe, lambda _subject, _queue, sid: encode_unsubscribe(sid))
        super().__init__(Attachment(access, manner, subscriptions, jitter=jitter, on_status=on_status))

    @property
    def server_id(self) -> str:
        """Id of the hub's server that the link is attached to; empty while it is not."""
        hub = self.attachment.hub
        return hub.server_id if hub is not None and self.attached.is_set() else ""

    def send(self, frames: bytes) -> bool:
        """Send encoded frames; return False if they were not sent, as the link is not attached or its buffer full."""
        session = self.attachment.session
        return session is not None and session.out.write(frames)

    def _session(self) -> LinkSession:
        return LinkSession(
            CLIENT,
            on_messages=self._on_messages,
            on_interest=lambda _: None,
            encrypted=self._access.tls.handshake_first,
        )

    def _connect(self, hub: HubInfo, endpoint: HubEndpoint, credentials: Credentials) -> bytes:
        return connect_frame(hub, endpoint, credentials, name=self._name, version=version("silt"))
