"""nats-py's JetStream client and stream manager, unmodified, see in Silt what they see in nats-server."""

import asyncio
import dataclasses
from typing import Any

import nats
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, StreamConfig

from tests.integration.clients.comparable import Call, outcome, pretty


def _calls(js: JetStreamContext) -> list[tuple[str, Call]]:
    orders = StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True, max_msgs=100)
    changed = dataclasses.replace(orders, description="changed", discard=DiscardPolicy.NEW)
    message_id = {"Nats-Msg-Id": "one"}
    return [
        ("account", js.account_info),
        ("add", lambda: js.add_stream(orders)),
        ("add again", lambda: js.add_stream(orders)),
        ("add different", lambda: js.add_stream(dataclasses.replace(orders, max_msgs=5))),
        ("add by keywords", lambda: js.add_stream(name="KW", subjects=["kw"], max_age=3600)),
        ("overlap", lambda: js.add_stream(name="OVER", subjects=["orders.x"])),
        ("bad replicas", lambda: js.add_stream(name="R3", subjects=["r3"], num_replicas=3)),
        ("publish", lambda: js.publish("orders.1", b"one", headers=message_id)),
        ("publish twice", lambda: js.publish("orders.1", b"one", headers=message_id)),
        ("publish expecting", lambda: js.publish("orders.2", b"2", headers={"Nats-Expected-Last-Sequence": "1"})),
        ("publish expecting wrong", lambda: js.publish("orders.2", b"2", headers={"Nats-Expected-Last-Sequence": "1"})),
        ("publish to the stream", lambda: js.publish("orders.3", b"3", stream="ORDERS")),
        ("publish to another stream", lambda: js.publish("orders.3", b"3", stream="KW")),
        ("publish nowhere", lambda: js.publish("nowhere", b"")),
        ("info", lambda: js.stream_info("ORDERS")),
        ("info of subjects", lambda: js.stream_info("ORDERS", subjects_filter=">")),
        ("info of none", lambda: js.stream_info("NOSUCH")),
        ("find", lambda: js.find_stream_name_by_subject("orders.7")),
        ("find none", lambda: js.find_stream_name_by_subject("nothing")),
        ("list", js.streams_info),
        ("get", lambda: js.get_msg("ORDERS", seq=1)),
        ("get last", lambda: js.get_last_msg("ORDERS", "orders.3")),
        ("get next", lambda: js.get_msg("ORDERS", seq=1, subject="orders.2", next=True)),
        ("get direct", lambda: js.get_msg("ORDERS", seq=2, direct=True)),
        ("get last direct", lambda: js.get_last_msg("ORDERS", "orders.1", direct=True)),
        ("get none", lambda: js.get_msg("ORDERS", seq=99)),
        ("get none direct", lambda: js.get_msg("ORDERS", seq=99, direct=True)),
        ("update", lambda: js.update_stream(changed)),
        ("update none", lambda: js.update_stream(name="NOSUCH", subjects=["nosuch"])),
        ("delete message", lambda: js.delete_msg("ORDERS", 1)),
        ("delete message twice", lambda: js.delete_msg("ORDERS", 1)),
        ("purge by subject", lambda: js.purge_stream("ORDERS", subject="orders.2")),
        ("purge", lambda: js.purge_stream("ORDERS")),
        ("info when empty", lambda: js.stream_info("ORDERS")),
        ("delete", lambda: js.delete_stream("ORDERS")),
        ("delete twice", lambda: js.delete_stream("ORDERS")),
        ("delete the other", lambda: js.delete_stream("KW")),
    ]


async def _outcomes(url: str) -> list[tuple[str, Any]]:
    client = await nats.connect(url)
    try:
        return [(name, await outcome(call)) for name, call in _calls(client.jetstream())]
    finally:
        await client.close()


def test_stream_manager(new_pair: tuple[str, str]) -> None:
    """Each call of the manager gives the same object or raises the same error."""
    expected, actual = (asyncio.run(_outcomes(url)) for url in new_pair)
    assert [name for name, _ in actual] == [name for name, _ in expected]
    for (name, one), (_, other) in zip(expected, actual, strict=True):
        assert pretty(other) == pretty(one), name
