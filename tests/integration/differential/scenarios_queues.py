"""Scenarios of queue groups: whatever JetStream itself sends reaches one member of each group that listens."""

import asyncio
import json
from typing import Any

from tests.integration.differential.desk import SECOND, Desk, normal_delivery
from tests.integration.differential.side import Side, scenario
from tests.wire import Delivered, Headers, header_block


class Groups:
    """Listeners, alone or in groups; a step records what each of them got, whichever member of a group it was."""

    def __init__(self, side: Side, *listeners: str) -> None:
        """``listeners`` are ``<subject>``, or ``<subject> <group>`` for one member more of a group."""
        self.side = side
        self._heard: dict[str, list[Delivered]] = {}
        self._sids: list[tuple[str, str]] = []
        for listener in listeners:
            self.join(listener)

    def join(self, listener: str) -> None:
        """One listener more."""
        subject, _, queue = listener.partition(" ")
        heard = self._heard.setdefault((queue and f"group {queue}") or subject, [])
        self._sids.append((listener, self.side.wire.listen(subject, heard.append, queue=queue)))

    def leave(self, listener: str) -> None:
        """End all members of a group."""
        for held in [one for one in self._sids if one[0] == listener]:
            self.side.wire.unlisten(held[1])
            self._sids.remove(held)

    def ask(self, subject: str, body: str = "", *, to: str, header: Headers = ()) -> None:
        """Publish with a reply subject of our choice."""
        block = header_block(header) if header else b""
        self.side.wire.publish(subject, body.encode(), reply=to, header=block)

    async def brought(self, label: str, *, seconds: float = 0.0) -> None:
        """Record what each group got since the last step."""
        counts: dict[str, int] = {}

        async def look() -> list[dict[str, Any]]:
            counts.update((listener, len(heard)) for listener, heard in self._heard.items())
            return [{name: sorted((_normal(one) for one in self._heard[name]), key=json.dumps) for name in counts}]

        await asyncio.sleep(seconds)
        await self.side.settled(label, look)
        for listener, count in counts.items():
            del self._heard[listener][:count]


def _normal(message: Delivered) -> dict[str, Any]:
    """A message as plain data; of an answer of the API only its type, for the lengths of times differ."""
    if b'"type":"io.nats.jetstream.api.' in message.payload:
        message = message._replace(payload=json.loads(message.payload)["type"].encode())
    return normal_delivery(message)


@scenario
async def queues_of_replies(side: Side) -> None:
    """Acknowledgements, refusals, API answers and Direct Get's go to the groups that listen to the reply subject."""
    await side.create("S", subjects=["s.>"], allow_direct=True, allow_atomic=True, allow_batched=True)
    groups = Groups(side, "r.1 one", "r.1 one", "r.* two", "r.> two", "r.> all", "r.1", "other one")
    groups.ask("s.1", "plain", to="r.1")
    await groups.brought("an acknowledgement")
    for number in range(8):
        groups.ask("s.1", f"{number}", to="r.1")
    await groups.brought("acknowledgements of a run")
    groups.ask("s.1", "id", to="r.1", header=[("Nats-Msg-Id", "1")])
    groups.ask("s.1", "id", to="r.1", header=[("Nats-Msg-Id", "1")])
    groups.ask("s.1", "no", to="r.1", header=[("Nats-Expected-Last-Sequence", "99")])
    await groups.brought("a duplicate and a refusal")
    groups.ask("s.1", "x", to="r.1", header=[("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1")])
    commit = [("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "2"), ("Nats-Batch-Commit", "1")]
    groups.ask("s.1", "x", to="r.1", header=commit)
    await groups.brought("an atomic batch")
    groups.ask("s.1", "x", to="r.f.5.ok.1.0.$FI")
    groups.ask("s.1", "x", to="r.f.5.ok.2.2.$FI")
    await groups.brought("a fast batch")
    groups.ask("$JS.API.STREAM.NAMES", to="r.1")
    groups.ask("$JS.API.STREAM.MSG.GET.S", '{"seq":99}', to="r.1")
    await groups.brought("the API")
    groups.ask("$JS.API.DIRECT.GET.S", '{"seq":1}', to="r.1")
    groups.ask("$JS.API.DIRECT.GET.S", '{"seq":1,"batch":3}', to="r.1")
    groups.ask("$JS.API.DIRECT.GET.S", '{"seq":1,"no_hdr":true}', to="r.1")
    groups.ask("$JS.API.DIRECT.GET.S", '{"seq":99}', to="r.1")
    await groups.brought("Direct Get")
    groups.leave("r.* two")
    groups.leave("r.> all")
    groups.leave("r.1")
    groups.ask("s.1", "plain", to="r.1")
    groups.ask("$JS.API.STREAM.NAMES", to="r.2")
    await groups.brought("after groups have left")


@scenario
async def queues_of_republished_messages(side: Side) -> None:
    """Republished messages, whole or headers only."""
    await side.create("S", subjects=["s.>"], republish={"src": "s.>", "dest": "again.>"})
    await side.create("H", subjects=["h.>"], republish={"src": "h.>", "dest": "heads.>", "headers_only": True})
    groups = Groups(side, "again.> one", "again.> one", "again.1 two", "*.1 three", "again.1", "heads.* four")
    for number in range(3):
        groups.ask(f"s.{number}", f"m{number}", to="acks")
    await groups.brought("republished")
    groups.ask("s.1", "with headers", to="acks", header=[("Key", "v")])
    groups.ask("h.1", "heads", to="acks")
    await groups.brought("republished with headers")
    groups.leave("again.> one")
    groups.ask("s.1", "later", to="acks")
    groups.ask("s.2", "nobody", to="acks")
    await groups.brought("republished later")


@scenario
async def queues_of_advisories(side: Side) -> None:
    """Advisories of streams, consumers and redelivery, and metrics."""
    names = ("STREAM.CREATED.S", "STREAM.UPDATED.S", "CONSUMER.CREATED.S.C", "CONSUMER.MSG_NAKED.S.C")
    groups = Groups(side, *(f"$JS.EVENT.ADVISORY.{name} one" for name in names), "$JS.EVENT.METRIC.> two")
    groups.join("$JS.EVENT.ADVISORY.*.*.S one")
    await side.create("S", subjects=["s.>"])
    await side.update("S", subjects=["s.>"], max_msgs=10)
    await groups.brought("of the stream")
    config = {"name": "C", "ack_policy": "explicit", "sample_freq": "100"}
    await side.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    await side.publish("s.1", "m")
    deliveries: list[Delivered] = []
    side.wire.listen("inbox", deliveries.append)
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "1", to="inbox")
    await groups.brought("of the consumer")
    await side.until(lambda: len(deliveries) == 1)
    side.wire.publish(deliveries[0].reply, b"-NAK")
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", "1", to="inbox")
    await groups.brought("of a nak")
    await side.until(lambda: len(deliveries) == 2)
    side.wire.publish(deliveries[1].reply, b"")
    await groups.brought("of an ack")


@scenario
async def queues_of_pulls(side: Side) -> None:
    """Messages and statuses of pulls, and the answers to double acks."""
    desk = await Desk(side).open(4)
    await desk.make()
    groups = Groups(side, "in.1 one", "in.1 one", "in.> two", "acks one", "acks two")
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", '{"batch":2}', to="in.1")
    await groups.brought("to groups only")
    groups.join("in.1")
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", '{"batch":9,"no_wait":true}', to="in.1")
    await groups.brought("to all")
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", '{"batch":1,"expires":300000000}', to="in.1")
    await groups.brought("expired", seconds=0.4)
    groups.ask("$JS.ACK.S.C.1.1.1.1.1", to="acks")
    await groups.brought("a double ack")
    groups.leave("in.1")
    groups.leave("in.1 one")
    groups.leave("in.> two")
    groups.ask("$JS.API.CONSUMER.MSG.NEXT.S.C", '{"batch":1,"no_wait":true}', to="in.1")
    await groups.brought("nobody is left")


@scenario
async def queues_of_pushes(side: Side) -> None:
    """Messages and heartbeats of push consumers: plain ones, and one with a group beside other groups."""
    desk = await Desk(side).open(2)
    groups = Groups(side, "d one", "d one", "* two")
    await desk.make(deaf=True, deliver_subject="d", idle_heartbeat=SECOND)
    await groups.brought("groups only", seconds=0.1)
    groups.join("d")
    await groups.brought("a plain listener comes")
    await desk.publish("s.1", "for all", header=[("Key", "v")])
    await groups.brought("published")
    await groups.brought("heartbeats", seconds=1.0)
    groups.leave("d")
    await desk.publish("s.2", "for the groups")
    await groups.brought("the plain listener has left")
    more = Groups(side, "g three", "g three", "g four", "g", "* five")
    await desk.make("G", deaf=True, deliver_subject="g", deliver_group="three")
    await more.brought("a group and others")
    await desk.publish("s.1", "for each group")
    await more.brought("published to the group")
