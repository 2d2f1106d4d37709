"""A scenario's hands: it asks one server, and every answer goes into that side's transcript.

A scenario is an async function over a :class:`Side`. It runs once against nats-server and once against Silt, each
with no streams to begin with; what it asks may depend on what that side answered before (times of messages, say),
but then the label of the step must not.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from tests.integration.differential.pace import Look, Pace
from tests.integration.differential.transcript import Step, Transcript
from tests.waits import until
from tests.wire import (
    REPLY_SECONDS,
    SILENCE_SECONDS,
    STORE_FAILED,
    STORE_TRIES,
    Delivered,
    Headers,
    Reply,
    Wire,
    delete_streams,
    header_block,
)

Body = bytes | str | Mapping[str, Any] | list[Any] | None
Scenario = Callable[["Side"], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
_LABEL_WIDTH = 110
# Statuses that end a batch; data messages carry none.
_LAST_STATUSES = ("204", "404", "408", "412", "413", "500", "503")


def scenario(function: Scenario) -> Scenario:
    """Register a scenario under its function's name."""
    name = function.__name__
    assert name not in SCENARIOS, name
    SCENARIOS[name] = function
    return function


class Side:
    """One server under comparison; ``number`` is 0 for nats-server's side and 1 for the other."""

    def __init__(self, wire: Wire, pace: Pace, number: int) -> None:
        self.wire = self._wire = wire
        self.transcript = Transcript()
        self.tries = 0
        """How often a request was asked again because nats-server was not ready for it."""
        self.pace = pace
        self._number = number
        self._labels: dict[str, int] = {}
        self._streams: set[str] = set()

    def hear(self, *subjects: str) -> list[Reply]:
        """Subscribe; gives the list that messages are put into as they come, each with its subject before its data."""
        heard: list[Reply] = []

        def listener(message: Delivered) -> None:
            heard.append(Reply(message.header, f"{message.subject}: ".encode() + message.payload))

        for subject in subjects:
            self._wire.listen(subject, listener)
        return heard

    async def request(
        self, subject: str, body: Body = None, *, headers: Headers = (), raw_header: bytes = b"", label: str = ""
    ) -> Reply:
        """Ask once and record the one reply; fails when none comes."""
        for _ in range(STORE_TRIES):
            reply = await self._wire.receive(self._send(subject, body, headers, raw_header))
            if reply is None or not self._to_be_cleared(subject, reply):
                break
            self.tries += 1
            await self.wire.ask(f"$JS.API.STREAM.DELETE.{subject.rpartition('.')[2]}")
            await asyncio.sleep(SILENCE_SECONDS)
        self._record(label or f"{subject} {_text(body)} {_brief(headers)}", reply)
        return reply or Reply(b"", b"")

    def _to_be_cleared(self, subject: str, reply: Reply) -> bool:
        """Whether nats-server still clears away what a deleted stream had: it says so, or a new one shows it."""
        verb, _, name = subject.rpartition(".")
        if verb == "$JS.API.STREAM.DELETE" and b'"success":true' in reply.payload:
            self._streams.discard(name)
        if verb != "$JS.API.STREAM.CREATE" or name in self._streams:
            return False
        answer = json.loads(reply.payload)
        if "state" not in answer:
            return STORE_FAILED in reply.payload
        if self._number == 0 and answer["state"]["last_seq"] != max(answer["config"].get("first_seq", 0), 1) - 1:
            return True
        self._streams.add(name)
        return False

    async def requests(self, subjects: Collection[str], *, label: str) -> None:
        """Ask each subject once, without waiting for the answers between, and record them all as one step."""
        asked = [self._send(subject, None, (), b"") for subject in subjects]
        self._streams.difference_update(subject.rpartition(".")[2] for subject in subjects)
        replies = [await self._wire.receive(inbox) for inbox in asked]
        self.transcript.add(self._label(label), [reply or Reply(b"", b"no reply") for reply in replies])

    async def api(self, verb: str, body: Body = None, *, headers: Headers = (), label: str = "") -> dict[str, Any]:
        """Ask ``$JS.API.<verb>``; gives the parsed answer."""
        label = label or f"{verb} {_text(body)} {_brief(headers)}"
        reply = await self.request(f"$JS.API.{verb}", body, headers=headers, label=label)
        return dict(json.loads(reply.payload or b"{}"))

    async def create(self, name: str, *, label: str = "", **config: Any) -> dict[str, Any]:
        """STREAM.CREATE with this configuration."""
        body = {"name": name, **config}
        return await self.api(f"STREAM.CREATE.{name}", body, label=label or f"create {_text(body)}")

    async def create_many(self, pattern: str, count: int) -> None:
        """Create ``count`` streams named by ``pattern`` as one step, each with one subject of its own."""
        replies = []
        for number in range(count):
            name = pattern.format(number)
            inbox = self._send(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [f"many.{name}"]}, (), b"")
            reply = await self._wire.receive(inbox)
            replies += [reply] if reply else []
        self.transcript.add(self._label(f"create {pattern} x {count}"), replies)

    async def update(self, name: str, *, label: str = "", **config: Any) -> dict[str, Any]:
        """STREAM.UPDATE with this configuration."""
        body = {"name": name, **config}
        return await self.api(f"STREAM.UPDATE.{name}", body, label=label or f"update {_text(body)}")

    async def info(self, name: str, body: Body = None, *, label: str = "") -> dict[str, Any]:
        """STREAM.INFO."""
        return await self.api(f"STREAM.INFO.{name}", body, label=label)

    async def publish(self, subject: str, data: Body = b"", *, headers: Headers = (), label: str = "") -> Reply:
        """Publish and record the acknowledgement."""
        label = label or f"pub {subject} {_text(data)} {_brief(headers)}"
        return await self.request(subject, data, headers=headers, label=label)

    async def fill(self, subject: str, count: int, *, pattern: str = "m{}") -> None:
        """Publish ``count`` messages one after another as one step, each acknowledged; ``{}`` is the number in both."""
        replies = []
        for number in range(1, count + 1):
            inbox = self._send(subject.format(number), pattern.format(number), (), b"")
            reply = await self._wire.receive(inbox)
            replies += [reply] if reply else []
        self.transcript.add(self._label(f"fill {subject} x {count}"), replies)

    async def silent(self, subject: str, body: Body = None, *, headers: Headers = (), label: str = "") -> None:
        """Ask with a reply subject and record whatever comes in a short time: nothing is expected."""
        inbox = self._send(subject, body, headers, b"")
        reply = await self._wire.receive(inbox, seconds=SILENCE_SECONDS)
        self._record(label or f"silent {subject} {_text(body)} {_brief(headers)}", reply)

    async def mute(self, subject: str, data: Body = b"", *, headers: Headers = ()) -> None:
        """Publish without a reply subject; nothing is recorded."""
        body = _bytes(data)
        self._wire.send(subject, body, header=header_block(headers) if headers else b"", expect_reply=False)
        await asyncio.sleep(SILENCE_SECONDS)

    async def get(self, stream: str, body: Body = None, *, headers: Headers = (), label: str = "") -> Reply:
        """Direct Get that has one reply."""
        label = label or f"get {stream} {_text(body)} {_brief(headers)}"
        return await self.request(f"$JS.API.DIRECT.GET.{stream}", body, headers=headers, label=label)

    async def batch(self, stream: str, body: Body, *, label: str = "") -> list[Reply]:
        """Direct Get that has many replies: all of them up to the status that ends them."""
        inbox = self._send(f"$JS.API.DIRECT.GET.{stream}", body, (), b"")
        replies: list[Reply] = []
        seconds = REPLY_SECONDS
        while (reply := await self._wire.receive(inbox, seconds=seconds)) is not None:
            replies.append(reply)
            if reply.status.startswith(_LAST_STATUSES):
                break
            seconds = 2 * SILENCE_SECONDS
        self.transcript.add(self._label(label or f"batch {stream} {_text(body)}"), replies)
        return replies

    def note(self, label: str, seen: list[dict[str, Any]]) -> None:
        """Record a step whose answers are plain data already."""
        self.transcript.steps.append(Step(self._label(label), seen))

    async def settled(self, label: str, look: Look) -> None:
        """Record a step once both sides show the same and go on showing it."""
        label = self._label(label)
        self.transcript.steps.append(Step(label, await self.pace.settled(self._number, label, look)))

    async def until(self, true: Callable[[], object]) -> None:
        """Wait for what another process does."""
        await until(true)

    async def pause(self, seconds: float) -> None:
        """Let real time pass, for limits that depend on it."""
        await asyncio.sleep(seconds)

    async def finish(self) -> None:
        """Delete every stream, then record how many replies came beyond those received."""
        await self.pace.leave()
        await delete_streams(self._wire)
        surplus = Reply(b"", f"{self._wire.leftovers()} replies too many".encode())
        self.transcript.add("replies that nobody asked for", [surplus])

    def _send(self, subject: str, body: Body, headers: Headers, raw_header: bytes) -> str:
        header = raw_header or (header_block(headers) if headers else b"")
        return self._wire.send(subject, _bytes(body), header=header)

    def _record(self, label: str, reply: Reply | None) -> None:
        self.transcript.add(self._label(label), [reply] if reply else [])

    def _label(self, label: str) -> str:
        label = label.strip()
        if len(label) > _LABEL_WIDTH:
            label = f"{label[:_LABEL_WIDTH]}…"
        count = self._labels[label] = self._labels.get(label, 0) + 1
        return label if count == 1 else f"{label} ({count})"


def _bytes(body: Body) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _text(body: Body) -> str:
    return _bytes(body).decode("latin-1")


def _brief(headers: Headers) -> str:
    return " ".join(f"[{key}: {value}]" for key, value in headers)
