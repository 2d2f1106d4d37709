"""The same steps on a real nats-server and on the state machine, and what each of them shows afterwards."""

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from consumers.machine.consumer_machine import InvalidReset
from consumers.machine.effects import Ack, Advisory, Deliver, Effect, Reply, Status
from tests.unit.consumers.consumer_world import SECOND, START, Stream, World

Step = tuple[Any, ...]
Event = tuple[Any, ...]
SETTLE_SECONDS = 0.06
_ADVISORIES = ("MSG_NAKED", "MSG_TERMINATED", "MAX_DELIVERIES", "METRIC", "PINNED", "UNPINNED", "PAUSE")


class Machine:
    """The state machine on a stream in memory."""

    def __init__(self, config: dict[str, Any], retention: str = "limits") -> None:
        defaults: dict[str, Any] = {"ack_policy": "explicit", "max_waiting": 0 if "deliver_subject" in config else 512}
        defaults |= {"ack_wait": 30 * SECOND, "max_ack_pending": 1000}
        if config.get("ack_policy") == "none":
            defaults |= {"ack_wait": 0, "max_ack_pending": 0}
        if config.get("backoff"):
            defaults["ack_wait"] = config["backoff"][0]
        listed = {key: tuple(value) if isinstance(value, list) else value for key, value in config.items()}
        self.stream = Stream(retention=retention)
        self.config = {**defaults, **listed}
        self.world: World | None = None
        self._now = START
        self._acks: dict[int, tuple[int, int]] = {}
        self._flow = ""

    async def do(self, step: Step) -> tuple[list[Event], dict[str, Any]]:
        """Take one step; what came of it and what the consumer's info says."""
        effects = self._do(*step)
        if self.world is None:
            return [], {}
        effects += self.world.pass_time(SETTLE_SECONDS)
        shown = self._shown(effects)
        return _by_receiver(shown), self._info()

    def _do(self, verb: str, *args: Any) -> list[Effect]:
        if self.world is None and verb != "create":
            self._now += int(SETTLE_SECONDS * SECOND)
            if verb == "publish":
                self.stream.store(args[0], data=b"x" * args[1], now_ns=self._now)
            else:
                self._now += int(args[0] * SECOND)
            return []
        if self.world is None:
            self.world = World(self.stream, now=self._now, **self.config)
            active = self.world.consumer.set_active(True, self.world.now)
            return active + self.world.run()
        return self._event(self.world, verb, *args) + self.world.run()

    def _event(self, world: World, verb: str, *args: Any) -> list[Effect]:
        effects: list[Effect] = []
        match verb:
            case "publish":
                effects = world.store(args[0], data=b"x" * args[1])
            case "pull":
                world.deaf.discard(args[0].encode())
                effects = world.pull(args[1].encode(), args[0].encode())
            case "deafen":
                world.deaf.add(args[0].encode())
            case "wait":
                effects = world.pass_time(args[0])
            case "delete":
                world.stream.remove(args[0])
                effects = world.consumer.stored(world.now)
            case "ack":
                seq, body, reply = args
                cseq, count = self._acks.get(seq, (1, 1))
                effects = world.consumer.acks([Ack(seq, cseq, count, body.encode(), reply.encode())], world.now)
            case _:
                effects = self._order(world, verb, *args)
        return effects

    def _order(self, world: World, verb: str, *args: Any) -> list[Effect]:
        effects: list[Effect] = []
        match verb:
            case "purge":
                world.stream.index.advance_first(args[0])
                effects = world.consumer.stored(world.now, purged_to=args[0])
            case "update":
                effects = world.consumer.reconfigure(replace(world.consumer.config, **args[0]), world.now)
            case "reset":
                with contextlib.suppress(InvalidReset):
                    world.consumer.reset(args[0], world.now)
            case "unpin":
                effects = world.consumer.unpin(args[0], world.now)
            case "pause":
                effects = world.consumer.pause(world.now + int(args[0] * SECOND), world.now)
            case "flow":
                header = f"NATS/1.0\r\nNats-Last-Consumer: {args[0]}\r\nNats-Last-Stream: {args[1]}\r\n\r\n"
                effects = world.consumer.flow_reply(self._flow, world.now, header.encode())
        return effects

    def _shown(self, effects: list[Effect]) -> list[Event]:
        shown: list[Event] = []
        for one in effects:
            if isinstance(one, Deliver):
                columns = one.messages, one.consumer_seqs, one.counts, one.pendings
                for message, cseq, count, pending in zip(*columns, strict=True):
                    self._acks[message.seq] = (cseq, count)
                    pin = (one.pin_id != "",) if one.pin_id else ()
                    shown.append(
                        ("msg", one.subject.decode(), message.subject, count, message.seq, cseq, pending, *pin)
                    )
            elif isinstance(one, Status):
                self._flow = one.reply.decode().rpartition(".")[2] or self._flow
                headers = dict(one.headers)
                headers |= {"Nats-Consumer-Stalled": "yes"} if "Nats-Consumer-Stalled" in headers else {}
                shown.append(("status", one.subject.decode(), str(one.code), one.text, headers))
            elif isinstance(one, Reply):
                shown.append(("reply", one.subject.decode()))
            elif isinstance(one, Advisory):
                hidden = ("ack_time", "pinned_id", "pause_until")
                fields = {key: value for key, value in one.fields.items() if key not in hidden}
                shown.append(("advisory", one.subject, fields))
        return shown

    def _info(self) -> dict[str, Any]:
        assert self.world is not None
        one = self.world.consumer
        one.stored(self.world.now)
        return {
            "delivered": one.delivered,
            "ack_floor": one.ack_floor,
            "num_ack_pending": one.num_ack_pending,
            "num_redelivered": one.num_redelivered,
            "num_waiting": one.num_waiting,
            "num_pending": one.num_pending,
            "delivered_at": one.progress.last_delivered_ns > 0,
            "acked_at": one.progress.last_acked_ns > 0,
        }


class Server:
    """A consumer of a real nats-server."""

    def __init__(self, client: Client, config: dict[str, Any], retention: str = "limits") -> None:
        self._client = client
        self._config = {"name": "C", "ack_policy": "explicit", **config}
        self._retention = retention
        self._events: list[Event] = []
        self._subs: dict[str, Any] = {}
        self._acks: dict[int, str] = {}
        self._flow = ""
        self._created = False

    async def start(self) -> None:
        """Make the stream."""
        await self._api("STREAM.DELETE.S")
        await self._api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "retention": self._retention})
        await self._client.subscribe("$JS.EVENT.>", cb=self._advisory)
        if "deliver_subject" in self._config:
            await self._listen(self._config["deliver_subject"])

    async def do(self, step: Step) -> tuple[list[Event], dict[str, Any]]:
        """Take one step; what came of it and what the consumer's info says."""
        self._events = []
        await self._do(*step)
        await asyncio.sleep(SETTLE_SECONDS)
        events = self._events
        if not self._created:
            return [], {}
        info = await self._api("CONSUMER.INFO.S.C")
        shown = {
            "delivered": (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]),
            "ack_floor": (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]),
            **{name: info[name] for name in ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending")},
            "delivered_at": "last_active" in info["delivered"],
            "acked_at": "last_active" in info["ack_floor"],
        }
        return _by_receiver(events), shown

    async def _do(self, verb: str, *args: Any) -> None:
        if verb == "create":
            self._created = True
            made = await self._api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": self._config})
            assert "error" not in made, made
        elif verb == "publish":
            await self._client.request(args[0], b"x" * args[1])
        elif verb == "pull":
            await self._listen(args[0])
            await self._client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", args[1].encode(), reply=args[0])
        elif verb == "deafen":
            await self._subs.pop(args[0]).unsubscribe()
            await self._client.flush()
        elif verb == "wait":
            await asyncio.sleep(args[0])
        elif verb == "ack":
            seq, body, reply = args
            if reply:
                await self._listen(reply)
            subject = self._acks.get(seq, f"$JS.ACK.S.C.1.{seq}.1.1.1")
            await self._client.publish(subject, body.encode(), reply=reply)
        else:
            await self._order(verb, *args)

    async def _order(self, verb: str, *args: Any) -> None:
        if verb == "delete":
            await self._api("STREAM.MSG.DELETE.S", {"seq": args[0]})
        elif verb == "purge":
            await self._api("STREAM.PURGE.S", {"seq": args[0]})
        elif verb == "update":
            self._config |= args[0]
            made = await self._api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": self._config})
            assert "error" not in made, made
        elif verb == "reset":
            await self._api("CONSUMER.RESET.S.C", {"seq": args[0]} if args[0] else None)
        elif verb == "pause":
            until = datetime.now(UTC) + timedelta(seconds=args[0])
            await self._api("CONSUMER.PAUSE.S.C", {"pause_until": until.isoformat()})
        elif verb == "flow":
            headers = {"Nats-Last-Consumer": str(args[0]), "Nats-Last-Stream": str(args[1])}
            await self._client.publish(self._flow, b"", headers=headers)
        elif verb == "unpin":
            await self._api("CONSUMER.UNPIN.S.C", {"group": args[0]})

    async def _listen(self, subject: str) -> None:
        if subject not in self._subs:
            self._subs[subject] = await self._client.subscribe(subject, cb=self._received)
            await self._client.flush()

    async def _received(self, message: Msg) -> None:
        headers = dict(message.headers or {})
        if message.reply.startswith("$JS.ACK."):
            count, seq, cseq, _, pending = map(int, message.reply.split(".")[4:])
            self._acks[seq] = message.reply
            to = message._sid
            receiver = next(name for name, sub in self._subs.items() if sub._id == to)
            pin = (headers["Nats-Pin-Id"] != "",) if "Nats-Pin-Id" in headers else ()
            self._events.append(("msg", receiver, message.subject, count, seq, cseq, pending, *pin))
        elif headers.get("Status") == "503":
            return
        elif "Status" in headers:
            self._flow = message.reply or self._flow
            stalled = "Nats-Consumer-Stalled" in headers
            headers |= {"Nats-Consumer-Stalled": "yes"} if stalled else {}
            code, text = headers.pop("Status"), headers.pop("Description", "")
            self._events.append(("status", message.subject, code, text, headers))
        else:
            self._events.append(("reply", message.subject))

    async def _advisory(self, message: Msg) -> None:
        if any(part in message.subject for part in _ADVISORIES):
            hidden = ("type", "id", "timestamp", "ack_time", "pinned_id", "pause_until")
            fields = {key: value for key, value in json.loads(message.data).items() if key not in hidden}
            self._events.append(("advisory", message.subject, fields))

    async def _api(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        answer = await self._client.request(f"$JS.API.{subject}", data, timeout=5)
        shown: dict[str, Any] = json.loads(answer.data)
        return shown


def _by_receiver(events: list[Event]) -> list[Event]:
    """Each receiver's events in order: between receivers there is none, nor between advisories on one subject."""
    return sorted(events, key=lambda event: (event[1], repr(event) if event[0] == "advisory" else ""))


async def differences(
    url: str, steps: list[Step], *, retention: str = "limits", **config: Any
) -> list[tuple[Step, Any, Any]]:
    """Each step on which the two disagree, with what the server and what the machine showed."""
    client = await nats.connect(url)
    try:
        server, machine = Server(client, config, retention), Machine(config, retention)
        await server.start()
        found = []
        for step in steps:
            real, ours = await server.do(step), await machine.do(step)
            if config.get("replay_policy") == "original":
                # The server counts the message that it holds back as gone.
                real[1].pop("num_pending", None), ours[1].pop("num_pending", None)
            if real != ours:
                found.append((step, real, ours))
        return found
    finally:
        await client.close()
