"""Consumers as their clients see them: every delivery, status and advisory on the wire, step by step.

A :class:`Desk` works for a scenario. Each step does one thing, waits until both sides agree, and records what came at
each receiver, in order, together with what CONSUMER.INFO says of every consumer that the scenario made. Receivers are
told apart by the subject that they subscribed to; between two of them there is no order, within one there is.
"""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.differential.side import Body, Side
from tests.integration.differential.transcript import ID, normal_json, normal_reply, time_placeholder
from tests.wire import Delivered, Headers, Reply, header_block

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
SLACK_SECONDS = 0.15
_ACK = re.compile(r"(\$JS\.ACK\.[^.]+\.[^.]+\.\d+\.\d+\.\d+\.)(\d{19})(\.\d+)")
_FLOW = re.compile(r"(\$JS\.FC\.[^.]+\.[^.]+\.)[A-Za-z0-9]+")
_EVENTS = ("$JS.EVENT.ADVISORY.CONSUMER.>", "$JS.EVENT.METRIC.>")


def normal_subject(subject: str) -> str:
    """An ack subject without its time, a flow control subject without its token; any other as it is."""
    return _FLOW.sub(r"\1<token>", _ACK.sub(r"\1<time>\3", subject))


def normal_delivery(message: Delivered) -> dict[str, Any]:
    """One message as plain data: its header block stays text, but for pins, times and tokens in it."""
    lines = message.header.decode("latin-1").split("\r\n")
    for place, line in enumerate(lines):
        name, _, value = line.partition(": ")
        if name == "Nats-Time-Stamp":
            lines[place] = f"{name}: {time_placeholder(value)}"
        elif name == "Nats-Pin-Id":
            lines[place] = f"{name}: {ID.sub('<id>', value)}"
        elif name in ("Nats-Consumer-Stalled", "Nats-Subject"):
            lines[place] = f"{name}: {normal_subject(value)}"
    seen: dict[str, Any] = {"subject": message.subject, "reply": normal_subject(message.reply)}
    if message.header:
        seen["header"] = "\r\n".join(lines)
    payload = message.payload.decode("latin-1")
    if message.subject.startswith("$JS.EVENT."):
        seen["json"] = normal_json(json.loads(payload))
    else:
        seen["payload"] = payload if len(payload) < 100 else f"{payload[:20]}… of {len(payload)}"
    return seen


def time_from_now(seconds: float) -> str:
    """The time then, as the API writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Desk:
    """The consumers of one stream and all who receive from them."""

    def __init__(self, side: Side, *, stream: str = "S") -> None:
        self.side = side
        self.stream = stream
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._names: list[str] = []
        self._sids: dict[str, str] = {}
        self._replies: dict[tuple[str, int], str] = {}
        self._flow = ""
        self._pin = ""
        self._marked = 0.0
        for subject in _EVENTS:
            self.listen(subject)

    async def open(self, messages: int = 0, **config: Any) -> "Desk":
        """Create the stream ``S`` on ``s.>`` and store messages on ``s.0``, ``s.1`` and ``s.2`` in turn."""
        subjects = config.pop("subjects", ["s.>"])
        await self.side.create(self.stream, subjects=subjects, **config)
        for number in range(messages):
            await self.side.wire.ask(f"s.{number % 3}", f"m{number + 1}".encode())
        return self

    def listen(self, subject: str, *, queue: str = "") -> None:
        """Subscribe, unless that is done already; the subject is the receiver's name."""
        if subject not in self._sids:
            self._sids[subject] = self.side.wire.listen(subject, lambda one: self._came(subject, one), queue=queue)

    def leave(self, subject: str) -> None:
        """End a subscription."""
        self.side.wire.unlisten(self._sids.pop(subject))

    def _came(self, receiver: str, message: Delivered) -> None:
        if message.reply.startswith("$JS.ACK."):
            tokens = message.reply.split(".")
            self._replies[tokens[3], int(tokens[5])] = message.reply
        elif message.reply.startswith("$JS.FC."):
            self._flow = message.reply
        for line in message.header.decode("latin-1").split("\r\n"):
            if line.startswith("Nats-Pin-Id: "):
                self._pin = line.partition(": ")[2]
        self._events.setdefault(receiver, []).append(normal_delivery(message))

    async def make(self, name: str = "C", *, deaf: bool = False, seconds: float = 0.0, **config: Any) -> None:
        """Create or update a consumer; its deliver subject is listened to first, unless ``deaf``.

        ``seconds`` belong to the step, for what comes at a pace.
        """
        if "deliver_subject" in config and not deaf:
            self.listen(config["deliver_subject"], queue=config.get("deliver_group", ""))
        if name not in self._names:
            self._names.append(name)
        body = {"stream_name": self.stream, "config": {"name": name, "ack_policy": "explicit", **config}}
        shown = {key: value for key, value in config.items() if not key.endswith(("_time", "_until"))}
        await self.api(
            f"CONSUMER.CREATE.{self.stream}.{name}", body, seconds=seconds, label=f"make {name} {json.dumps(shown)}"
        )

    async def api(self, verb: str, body: Body = None, *, label: str = "", seconds: float = 0.0) -> None:
        """Ask the API as a step: the answer, and what else came of it."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else b""
        answer = await self.side.wire.ask(f"$JS.API.{verb}", data)
        assert answer is not None, verb
        await asyncio.sleep(seconds + SLACK_SECONDS if seconds else 0.0)
        await self._settle(label or f"{verb} {data.decode()}", answer)

    async def pull(
        self, body: Body = None, *, to: str = "a", name: str = "C", header: Headers = (), deaf: bool = False
    ) -> None:
        """Ask a consumer for messages; ``to`` is the receiver, which listens unless ``deaf``."""
        text = body if isinstance(body, str) else json.dumps(body) if body is not None else ""
        self.ask(text, to=to, name=name, header=header, deaf=deaf)
        await self._settle(f"pull {name} to {to}: {text[:60]}{' with headers' if header else ''}")

    def ask(self, text: str, *, to: str = "a", name: str = "C", header: Headers = (), deaf: bool = False) -> None:
        """A request for messages without a step of its own."""
        if not deaf and not any(held.endswith(".*") and to.startswith(held[:-1]) for held in self._sids):
            self.listen(to)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{name}"
        self.side.wire.publish(subject, text.replace("<pin>", self._pin).encode(), reply=to, header=_block(header))

    async def ack(self, seq: int, body: str = "", *, to: str = "", name: str = "C") -> None:
        """Answer a delivery (the newest one of that sequence); ``to`` is who gets the double ack's answer."""
        if to:
            self.listen(to)
        subject = self._replies.get((name, seq), f"$JS.ACK.{self.stream}.{name}.1.{seq}.{seq}.1.1")
        self.side.wire.publish(subject, body.encode(), reply=to)
        await self._settle(f"ack {name} {seq} {body}{f' answer to {to}' if to else ''}")

    async def flow(self, label: str = "answer the flow control", header: Headers = ()) -> None:
        """Answer the last flow control request, which may be still to come."""
        await self.side.until(lambda: self._flow)
        self.side.wire.publish(self._flow, b"", header=_block(header))
        await self._settle(label)

    async def publish(self, subject: str = "s.1", data: str = "x", *, header: Headers = ()) -> None:
        """Store a message."""
        await self.side.wire.ask(subject, data.encode(), header=_block(header))
        await self._settle(f"publish {subject} {data[:20]} {len(data)}{' with headers' if header else ''}")

    async def pause(self, seconds: float, *, name: str = "C") -> None:
        """Let a consumer deliver nothing for so long; ended when negative."""
        body = {"pause_until": time_from_now(seconds)}
        await self.api(f"CONSUMER.PAUSE.{self.stream}.{name}", body, label=f"pause {name} for {seconds} s")

    async def wait(self, seconds: float, label: str = "", *, slack: float = SLACK_SECONDS) -> None:
        """Let time pass, and a little more: what comes after so long has come then."""
        await asyncio.sleep(seconds + slack)
        await self._settle(label or f"wait {seconds} s")

    def mark(self) -> None:
        """From here on :meth:`until` counts."""
        self._marked = asyncio.get_running_loop().time()

    async def until(self, seconds: float) -> None:
        """Let time pass until so long after the mark."""
        await asyncio.sleep(max(0.0, self._marked + seconds - asyncio.get_running_loop().time()))
        await self._settle(f"until {seconds} s")

    async def stop_listening(self, subject: str) -> None:
        """End a subscription as a step."""
        self.leave(subject)
        await self._settle(f"nobody listens on {subject}")

    async def start_listening(self, subject: str, *, queue: str = "") -> None:
        """Begin a subscription as a step."""
        self.listen(subject, queue=queue)
        await self._settle(f"somebody listens on {subject} {queue}")

    async def _settle(self, label: str, answer: Reply | None = None) -> None:
        """Record what came, and what is said of the consumers, once nothing more comes."""
        shown: dict[str, int] = {}

        async def look() -> list[dict[str, Any]]:
            info = f"$JS.API.CONSUMER.INFO.{self.stream}."
            infos = await asyncio.gather(*(self.side.wire.ask(info + name) for name in self._names))
            shown.update((receiver, len(events)) for receiver, events in self._events.items())
            step: dict[str, Any] = {"events": {name: _in_order(name, self._events[name]) for name in sorted(shown)}}
            if answer is not None:
                step["answer"] = normal_reply(answer)
            for name, reply in zip(self._names, infos, strict=True):
                step[f"info of {name}"] = normal_json(json.loads(reply.payload)) if reply and reply.payload else "none"
            return [step]

        await self.side.settled(label, look)
        for receiver, count in shown.items():
            del self._events[receiver][:count]
        self._events = {receiver: events for receiver, events in self._events.items() if events}


def _in_order(receiver: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A receiver's events as they came; advisories come in any order."""
    return sorted(events, key=json.dumps) if receiver in _EVENTS else events.copy()


def _block(header: Headers) -> bytes:
    return header_block(header) if header else b""
