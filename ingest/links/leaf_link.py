"""The leaf link: stream messages and acks come in, replies and deliveries go out, in one order.

Frames sent while no connection is open are refused, never queued.
"""

import asyncio
from collections.abc import Callable

from conf.limits import LINK_PAYLOAD_BYTES_MAX
from ingest.links.attachment import Access, Attachment, HubLink, Manner
from ingest.links.link_session import LinkSession, OnMessages
from ingest.protocol.credentials import Credentials
from ingest.protocol.handshake import HubInfo
from ingest.protocol.interest import InterestTable, OnChange
from ingest.protocol.leaf_connect import LeafIdentity, check_leaf_listener, connect_frame
from ingest.protocol.leaf_protocol import LEAF, encode_subscribe, encode_unsubscribe, subject_of, with_queues
from ingest.protocol.link import HubEndpoint, Jitter, OnStatus
from ingest.protocol.payload_limit import Oversize, within
from ingest.protocol.subscriptions import Subscriptions


class LeafLink(HubLink):
    """A leafnode connection to a hub that is made again whenever it is lost."""

    def __init__(
        self,
        access: Access,
        identity: LeafIdentity,
        on_messages: OnMessages,
        *,
        jitter: Jitter,
        on_interest: OnChange | None = None,
        on_status: OnStatus | None = None,
    ) -> None:
        self.interest = InterestTable(on_change=on_interest)
        """The hub's subscriptions as of the last attachment; meaningful while ``attached``."""
        self.on_oversize: Callable[[Oversize], None] = lambda _: None
        """Called with each message too large for the hub."""
        self._fresh = InterestTable()
        """The subscriptions announced so far on the connection that is being made."""
        self._access, self._identity = access, identity
        self._on_messages = on_messages
        manner = Manner(self._session, check=check_leaf_listener, connect=self._connect, attached=self._attached)
        subscriptions = Subscriptions(
            lambda subject, queue, _: encode_subscribe(subject, queue),
            lambda subject, queue, _: encode_unsubscribe(subject, queue),
        )
        super().__init__(Attachment(access, manner, subscriptions, jitter=jitter, on_status=on_status))

    # --- the callers' side ---

    @property
    def hub(self) -> HubInfo | None:
        """The newest connection's INFO."""
        return self.attachment.hub

    def send(self, frames: bytes) -> bool:
        """Queue encoded frames behind all earlier ones.

        Returns False, with nothing sent, if no connection is open or ``LINK_OUTBOUND_BYTES_MAX`` are queued. A message
        of more than :attr:`payload_max` bytes never leaves, see :mod:`ingest.protocol.payload_limit`.
        """
        session = self.attachment.session
        if session is None:
            return False
        if len(frames) > self.payload_max:
            frames, left_out = within(frames, self.payload_max)
            for one in left_out:
                self.on_oversize(one)
        return session.out.write(frames)

    @property
    def payload_max(self) -> int:
        """Most bytes of header and payload in one message."""
        return (self.hub.max_payload if self.hub is not None else 0) or LINK_PAYLOAD_BYTES_MAX

    def send_runs(self, *runs: bytes) -> bool:
        """Send runs of frames, each run to one subject, as :meth:`send` does; the subject's queue groups are added."""
        return self.send(b"".join(map(self._named, runs) if self.interest.has_groups else runs))

    def _named(self, run: bytes) -> bytes:
        queues = self.interest.queues(subject_of(run))
        return with_queues(run, sorted(queues)) if queues else run

    @property
    def writable(self) -> bool:
        """Whether a connection is open with less than ``LINK_OUTBOUND_HIGH_BYTES`` queued."""
        session = self.attachment.session
        return session is not None and session.out.writable.is_set()

    async def drain(self, timeout: float) -> None:
        """Wait until :attr:`writable` or detached. Raises ``TimeoutError`` after ``timeout`` seconds."""
        session = self.attachment.session
        if session is not None:
            async with asyncio.timeout(timeout):
                await session.out.writable.wait()

    # --- one connection ---

    def _session(self) -> LinkSession:
        self._fresh = InterestTable()
        return LinkSession(
            LEAF,
            on_messages=self._on_messages,
            on_interest=self._fresh.apply,
            encrypted=self._access.tls.handshake_first,
        )

    def _connect(self, hub: HubInfo, endpoint: HubEndpoint, credentials: Credentials) -> bytes:
        return connect_frame(hub, endpoint, self._identity, credentials)

    def _attached(self, session: LinkSession) -> None:
        self.interest.replace(self._fresh)
        session.on_interest = self.interest.apply
