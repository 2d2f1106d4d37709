"""Scenarios of advisories: everything on ``$JS.EVENT.>`` that each request, ack, batch and passage of time brings."""

import asyncio
import json
from base64 import b64decode
from typing import Any

from tests.integration.differential.desk import MILLISECOND, SECOND
from tests.integration.differential.side import Body, Side, scenario
from tests.integration.differential.transcript import normal_json
from tests.wire import SILENCE_SECONDS, Delivered, Headers, header_block


def normal_event(message: Delivered) -> dict[str, Any]:
    """One event as plain data; an audit's request and response are compared as the JSON that they hold.

    Of the client that nats-server describes, only its account is compared: a leaf link tells no more of it.
    """
    event = normal_json(json.loads(message.payload))
    if event["type"].endswith(".api_audit"):
        event["server"] = "<server>" if event["server"] else ""
        event["client"] = {"acc": event["client"]["acc"]}
        event["response"] = normal_json(json.loads(event["response"]))
    return {"subject": message.subject, "json": event, "reply": message.reply}


def comparable(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events in an order of their own, without those of deleted streams.

    nats-server queues these with the stream that goes, and now and then does not come to sending them.
    """
    told = [event for event in events if not event["subject"].startswith("$JS.EVENT.ADVISORY.STREAM.DELETED.")]
    return sorted(told, key=lambda event: json.dumps(event, sort_keys=True))


class Watch:
    """Hears every event; each step does one thing and records, in any order, what it brought."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._heard: list[dict[str, Any]] = []
        side.wire.listen("$JS.EVENT.>", lambda message: self._heard.append(normal_event(message)))

    async def api(
        self, verb: str, body: Body = None, *, header: Headers = (), label: str = "", seconds: float = 5.0
    ) -> None:
        """Ask the API, and wait so long at most for an answer."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else b""
        block = header_block(header) if header else b""
        await self.side.wire.ask(f"$JS.API.{verb}", data, header=block, seconds=seconds)
        await self.brought(label or f"{verb} {data.decode()}")

    async def pull(self, consumer: str, body: Body, *, acks: tuple[str, ...] = (), seconds: float = 0.0) -> None:
        """Take messages, answer the first ones so, and let so much time pass."""
        deliveries: list[Delivered] = []
        inbox = f"pull.{consumer}"
        sid = self.side.wire.listen(inbox, deliveries.append)
        self.side.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", json.dumps(body).encode(), reply=inbox)
        await self.side.until(lambda: sum(one.reply != "" for one in deliveries) >= len(acks))
        for message, ack in zip([one for one in deliveries if one.reply], acks, strict=False):
            self.side.wire.publish(message.reply, ack.encode())
        await asyncio.sleep(seconds)
        await self.brought(f"pull {consumer} {json.dumps(body)} {acks}")
        self.side.wire.unlisten(sid)

    async def batch(self, name: str, number: int, **headers: str) -> None:
        """Publish one message of an atomic batch."""
        block = [("Nats-Batch-Id", name), ("Nats-Batch-Sequence", f"{number}")]
        block += [(f"Nats-{key.replace('_', '-').title()}", value) for key, value in headers.items()]
        await self.side.wire.ask("batch", b"x", header=header_block(block))
        await self.brought(f"batch {name} {number} {headers}")

    async def wait(self, seconds: float, *, label: str = "") -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)
        await self.brought(label or f"wait {seconds} s")

    async def brought(self, label: str) -> None:
        """Record what was heard since the last step."""
        count = 0

        async def look() -> list[dict[str, Any]]:
            nonlocal count
            count = len(self._heard)
            return comparable(self._heard)

        await self.side.settled(label, look)
        del self._heard[:count]


async def _streams(side: Side, watch: Watch) -> None:
    """Which requests are audited, and what is told of streams that come, change and go, and of failures."""
    await watch.api("INFO")
    config = {"name": "W", "subjects": ["w.>"], "allow_direct": True}
    await watch.api("STREAM.CREATE.W", config)
    await watch.api("STREAM.CREATE.W", config, label="create the same again")
    await watch.api("STREAM.CREATE.W", {"name": "W", "subjects": ["other"]})
    await watch.api("STREAM.CREATE.W", {"name": "X"})
    await watch.api("STREAM.CREATE.W", "{", label="no JSON")
    await watch.api("STREAM.UPDATE.W", config, label="update that changes nothing")
    await watch.api("STREAM.UPDATE.W", config | {"max_msgs": 10})
    await watch.api("STREAM.UPDATE.W", config | {"storage": "memory"})
    await watch.api("STREAM.UPDATE.NONE", {"name": "NONE"})
    for verb in ("STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.W", "STREAM.INFO.NONE", "CONSUMER.LIST.W"):
        await watch.api(verb)
    for number in range(3):
        await side.wire.ask(f"w.{number}", b"data")
    await watch.brought("publish")
    await watch.api("STREAM.MSG.GET.W", {"last_by_subj": "w.1"})
    await watch.api("STREAM.MSG.GET.W", {"seq": 99})
    await watch.api("DIRECT.GET.W", {"last_by_subj": "w.1"})
    await watch.api("STREAM.MSG.DELETE.W", {"seq": 3})
    await watch.api("STREAM.MSG.DELETE.W", {"seq": 3}, label="delete it again")
    await watch.api("STREAM.PURGE.W", {"filter": "w.2"})
    await watch.api("STREAM.PURGE.W", header=[("Nats-Required-Api-Level", "99")], label="too high a level")
    await watch.api("STREAM.NOSUCH.W", seconds=SILENCE_SECONDS)
    await watch.api("STREAM.LEADER.STEPDOWN.W")
    await watch.api("CONSUMER.CREATE.W.C", {"stream_name": "W", "config": {"name": "C"}})
    await watch.api("CONSUMER.CREATE.W.D", {"stream_name": "W", "config": {"name": "D"}})
    await watch.api("STREAM.DELETE.W", label="delete with two consumers")
    await watch.api("STREAM.DELETE.W", label="delete again")


@scenario
async def advisories_of_consumers(side: Side) -> None:
    """What is told of consumers and of what becomes of their messages."""
    await side.create("W", subjects=["w.>"])
    for number in range(6):
        await side.wire.ask(f"w.{number}", b"data")
    watch = Watch(side)

    async def make(name: str, /, **config: Any) -> None:
        config = {"name": name, "ack_policy": "explicit", "inactive_threshold": 60 * SECOND, **config}
        shown = {key: value for key, value in config.items() if key != "pause_until"}
        await watch.api(
            f"CONSUMER.CREATE.W.{name}", {"stream_name": "W", "config": config}, label=f"make {json.dumps(shown)}"
        )

    await make("C", sample_freq="100%", max_deliver=2)
    await make("C", sample_freq="100%", max_deliver=2)
    await make("C", sample_freq="100%", max_deliver=2, description="changed")
    await make("C", ack_policy="all")
    await watch.pull("W.C", {"batch": 5, "no_wait": True}, acks=("+ACK", "-NAK", "+TERM for a reason", "+TERM", "-NAK"))
    await watch.pull("W.C", {"batch": 3, "no_wait": True}, acks=("-NAK", "-NAK", "-NAK"))
    await watch.pull("W.C", {"batch": 3, "no_wait": True})
    await watch.api("STREAM.MSG.DELETE.W", {"seq": 6}, label="delete a message that waits for its ack")
    await watch.api("CONSUMER.RESET.W.C")
    await watch.api("CONSUMER.INFO.W.C")
    await watch.api("CONSUMER.INFO.W.NONE")
    await watch.api("CONSUMER.NAMES.W")
    await watch.api("CONSUMER.PAUSE.W.C", {"pause_until": "2199-01-01T00:00:00Z"})
    await watch.api("CONSUMER.PAUSE.W.C", {"pause_until": "2199-01-01T00:00:00Z"}, label="pause again")
    await watch.api("CONSUMER.PAUSE.W.C", label="resume")
    await watch.api("CONSUMER.PAUSE.W.C", label="resume again")
    await make("P", pause_until="2199-01-01T00:00:00Z")
    await make("P", pause_until="2198-01-01T00:00:00Z", description="sooner")
    await make("G", priority_policy="pinned_client", priority_groups=["g"], priority_timeout=10 * SECOND)
    await watch.pull("W.G", {"batch": 1, "expires": SECOND, "group": "g"}, acks=("+ACK",))
    await watch.api("CONSUMER.UNPIN.W.G", {"group": "g"})
    await watch.api("CONSUMER.UNPIN.W.G", {"group": "none"})
    await make("E", inactive_threshold=300 * MILLISECOND)
    await watch.wait(2.5)
    await make("T", ack_wait=200 * MILLISECOND, max_deliver=1)
    await watch.pull("W.T", {"batch": 2, "no_wait": True}, seconds=2.0)
    await watch.api("CONSUMER.DELETE.W.C")
    await watch.api("CONSUMER.DELETE.W.C", label="delete again")


@scenario
async def advisories_of_batches_and_streams(side: Side) -> None:
    """What is told of atomic batches that end without a commit, and of streams while the first batch waits in vain."""
    watch = Watch(side)
    await watch.api("STREAM.CREATE.B", {"name": "B", "subjects": ["batch"], "allow_atomic": True})
    begun = asyncio.get_running_loop().time()
    await watch.batch("late", 1)
    await _streams(side, watch)
    old = {"name": "OLD", "subjects": ["old"], "max_age": SECOND}
    await watch.api("STREAM.CREATE.OLD", old)
    await side.wire.ask("old", b"x")
    await watch.batch("fine", 1, batch_commit="1")
    await watch.batch("begins with 2", 2)
    await watch.batch("begins too large", 1002)
    await watch.batch("gap", 1)
    await watch.batch("gap", 3)
    await watch.batch("eob", 1, batch_commit="eob")
    await watch.batch("commit", 1, batch_commit="yes")
    await watch.batch("level", 1, required_api_level="99")
    await watch.batch("unfit", 1, expected_last_msg_id="x", batch_commit="1")
    await watch.batch("unmet", 1, expected_last_sequence="77", batch_commit="1")
    await watch.batch("large", 1)
    for number in range(2, 1001):
        block = [("Nats-Batch-Id", "large"), ("Nats-Batch-Sequence", f"{number}")]
        side.wire.publish("batch", b"x", header=header_block(block))
    await watch.batch("large", 1001)
    await watch.wait(begun + 10.6 - asyncio.get_running_loop().time(), label="until the first batch is too late")
    await watch.api("STREAM.UPDATE.OLD", old | {"storage": "memory"}, label="refused, and a message is too old")
    await watch.batch("late", 2, batch_commit="1")
    await watch.batch("deleted", 1)
    await watch.api("STREAM.DELETE.B")


@scenario
async def advisories_kept_by_a_stream(side: Side) -> None:
    """A stream that takes the subjects of advisories holds them, though nobody listens."""
    await side.create("KEPT", subjects=["$JS.EVENT.ADVISORY.CONSUMER.>", "$JS.EVENT.ADVISORY.STREAM.>"])
    await side.create("W", subjects=["w.>"], allow_atomic=True)
    await side.wire.ask("w.1", b"data")
    await side.wire.ask(
        "$JS.API.CONSUMER.CREATE.W.C",
        b'{"stream_name":"W","config":{"name":"C","ack_policy":"explicit","max_deliver":1,"ack_wait":200000000}}',
    )
    side.wire.listen("pulled", lambda _: None)
    side.wire.publish("$JS.API.CONSUMER.MSG.NEXT.W.C", b'{"batch":1,"no_wait":true}', reply="pulled")
    for number in ("1", "3"):
        block = [("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", number)]
        await side.wire.ask("w.2", b"", header=header_block(block))
    await asyncio.sleep(0.5)
    await side.wire.ask("$JS.API.STREAM.DELETE.W")

    async def look() -> list[dict[str, Any]]:
        kept = []
        for seq in range(1, 9):
            reply = await side.wire.ask("$JS.API.STREAM.MSG.GET.KEPT", json.dumps({"seq": seq}).encode())
            assert reply is not None
            message = json.loads(reply.payload).get("message")
            if message is not None:
                event = normal_json(json.loads(b64decode(message["data"])))
                kept.append({"subject": message["subject"], "json": event, "headers": "hdrs" in message})
        return comparable(kept)

    await side.settled("what is kept", look)
