"""A message that a consumer delivered, and its acknowledgements."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from nats.aio.client import Client
from nats.aio.msg import Msg

from consumers.client.api_call import nats_errors
from consumers.client.delivery import Metadata, read_metadata
from consumers.client.errors import AlreadyAcknowledged, UsageError

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Message:
    """One delivery. It is acknowledged once, with any number of :meth:`in_progress` before."""

    __slots__ = ("_acknowledged", "_client", "_metadata", "data", "headers", "reply", "subject")

    def __init__(self, client: Client, raw: Msg) -> None:
        self._client = client
        self._metadata: Metadata | None = None
        self._acknowledged = False
        self.subject = raw.subject
        self.reply = raw.reply
        self.headers: Mapping[str, str] = raw.headers or _NO_HEADERS
        self.data = raw.data

    def __repr__(self) -> str:
        return f"<Message {self.subject!r} {len(self.data)} bytes, {self.reply}>"

    @property
    def metadata(self) -> Metadata:
        """Its position in stream and consumer."""
        if self._metadata is None:
            self._metadata = read_metadata(self.reply)
        return self._metadata

    @property
    def is_acknowledged(self) -> bool:
        """Whether this object has sent a final acknowledgement."""
        return self._acknowledged

    async def ack(self) -> None:
        """Acknowledge, without waiting: the ack may get lost, and the message be delivered again."""
        await self._acknowledge(b"+ACK")

    async def double_ack(self, *, timeout: float = 5.0) -> None:
        """Acknowledge, and wait until the server has recorded it: the message is never delivered again."""
        self._check()
        with nats_errors("double ack"):
            await self._client.request(self.reply, b"+ACK", timeout=timeout)
        self._acknowledged = True

    async def nak(self, delay: float = 0.0) -> None:
        """Ask for another delivery, after ``delay`` seconds."""
        if delay < 0:
            raise UsageError("a delay is not negative")
        suffix = b" " + json.dumps({"delay": round(delay * 1e9)}).encode() if delay else b""
        await self._acknowledge(b"-NAK" + suffix)

    async def in_progress(self) -> None:
        """Restart the consumer's ``ack_wait`` for this message."""
        self._check()
        with nats_errors("in progress"):
            await self._client.publish(self.reply, b"+WPI")

    async def term(self, reason: str = "") -> None:
        """Refuse any further delivery; ``reason`` goes into the server's advisory."""
        await self._acknowledge(b"+TERM " + reason.encode() if reason else b"+TERM")

    async def _acknowledge(self, body: bytes) -> None:
        self._check()
        with nats_errors("acknowledgement"):
            await self._client.publish(self.reply, body)
        self._acknowledged = True

    def _check(self) -> None:
        if self._acknowledged:
            raise AlreadyAcknowledged(f"{self!r} is acknowledged already")
