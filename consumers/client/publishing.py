"""Publishing many messages with a bound on those whose acknowledgement is awaited.

A message that carries a ``Nats-Msg-Id`` is sent again when its acknowledgement does not come, or the server is busy or
away; the server knows it by its id. One without an id is sent once. Messages that are sent again come later than their
neighbours, so the order of one subject holds only while nothing is refused.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from nats.aio.client import Client
from nats.aio.msg import Msg

from consumers.client.api_call import nats_errors
from consumers.client.errors import (
    JetStreamError,
    NoResponders,
    RequestError,
    RequestTimeout,
    UnreadableAnswer,
    api_error,
)
from consumers.client.inbox import Inbox, Signal

MSG_ID: Final = "Nats-Msg-Id"
_BUSY: Final = frozenset((429, 503))
"""Codes of a server that may take the message later."""
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0


@dataclass(slots=True)
class _Sent:
    subject: str
    data: bytes
    headers: Mapping[str, str]
    give_up: float
    again: float
    pause: float = _PAUSE_SECONDS
    refused: JetStreamError | None = None
    """The last refusal; None while an answer is awaited."""


class BulkPublisher:
    """Publishes to streams; at most ``most`` messages are unacknowledged at a time.

    Errors are raised by the call that follows them: :class:`ApiError` with the server's code, :class:`RequestError`.
    """

    def __init__(
        self, client: Client, *, most: int = 1000, ack_seconds: float = 5.0, give_up_seconds: float = 60.0
    ) -> None:
        self._client = client
        self._most = most
        self._ack_seconds, self._give_up_seconds = ack_seconds, give_up_seconds
        self._inbox = Inbox(client, self._received)
        self._waiting: dict[int, _Sent] = {}
        self._failed: JetStreamError | None = None
        self._answered = Signal()
        self._below = 1
        """The number of unacknowledged messages below which a wait ends."""
        self._number = 0
        self.stored = 0
        """Messages acknowledged as new."""
        self.duplicates = 0
        """Messages that the server had by their id."""

    async def __aenter__(self) -> Self:
        await self._inbox.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._inbox.close()

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Send a message as soon as there is room for one more."""
        if len(self._waiting) >= self._most:
            await self._wait(below=max(1, self._most // 2))
        if self._failed is not None:
            raise self._failed
        self._number += 1
        now = asyncio.get_running_loop().time()
        sent = _Sent(subject, data, headers, now + self._give_up_seconds, now + self._ack_seconds)
        self._waiting[self._number] = sent
        await self._send(self._number, sent)

    async def done(self) -> None:
        """Wait until every message is acknowledged."""
        await self._wait(below=1)

    async def _wait(self, *, below: int) -> None:
        loop, self._below = asyncio.get_running_loop(), below
        while len(self._waiting) >= below and self._failed is None:
            now = loop.time()
            due = [(number, sent) for number, sent in self._waiting.items() if sent.again <= now]
            for number, sent in due:
                await self._try_again(number, sent, now)
            if not due:
                soon = min(sent.again for sent in self._waiting.values())
                await self._answered.wait(max(0.001, soon - now))
        if self._failed is not None:
            raise self._failed

    async def _try_again(self, number: int, sent: _Sent, now: float) -> None:
        if MSG_ID not in sent.headers or sent.give_up <= now:
            self._failed = sent.refused or RequestTimeout(f"publishing to {sent.subject}: no acknowledgement in time")
            return
        sent.refused, sent.again = None, now + self._ack_seconds
        await self._send(number, sent)

    async def _send(self, number: int, sent: _Sent) -> None:
        try:
            with nats_errors(f"publishing to {sent.subject}"):
                await self._client.publish(
                    sent.subject, sent.data, reply=self._inbox.reply(number), headers=dict(sent.headers) or None
                )
        except RequestError as error:
            if MSG_ID not in sent.headers or self._client.is_closed:
                raise
            self._put_off(sent, error)

    def _put_off(self, sent: _Sent, refused: JetStreamError) -> None:
        """Send a message again later."""
        sent.refused, sent.again = refused, asyncio.get_running_loop().time() + sent.pause
        sent.pause = min(2 * sent.pause, _PAUSE_SECONDS_MAX)

    def _received(self, number: int, message: Msg) -> None:
        sent = self._waiting.get(number)
        if sent is None:
            return
        refused = self._refusal(sent, message)
        if refused is None:
            del self._waiting[number]
        elif refused.retryable and MSG_ID in sent.headers:
            self._put_off(sent, refused)
        else:
            self._failed = self._failed or refused
        if refused is not None or len(self._waiting) < self._below:
            self._answered.set()

    def _refusal(self, sent: _Sent, message: Msg) -> JetStreamError | None:
        """Return the error of an answer; None for an acknowledgement, which is counted."""
        what = f"publishing to {sent.subject}"
        status = (message.headers or {}).get("Status")
        if status == "503":
            return NoResponders(f"{what}: no stream takes it (503 no responders)")
        if status is not None:
            return _refused(what, {"code": int(status), "description": (message.headers or {}).get("Description", "")})
        try:
            answer: Any = json.loads(message.data)
            if error := answer.get("error"):
                return _refused(what, error)
            self.duplicates += bool(answer.get("duplicate"))
            self.stored += not answer.get("duplicate")
        except (ValueError, AttributeError):
            return UnreadableAnswer(f"{what}: not an acknowledgement")
        return None


def _refused(what: str, error: Mapping[str, Any]) -> JetStreamError:
    code = int(error.get("code", 0))
    found = api_error(503 if code in _BUSY else code, int(error.get("err_code", 0)), str(error.get("description", "")))
    found.code, found.args = code, (f"{what}: {error.get('description', '')} (code {code}, err_code {found.err_code})",)
    return found
