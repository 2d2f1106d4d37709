"""A gateway that is killed before anything is settled comes back from a journal of many small commits as it was."""

import asyncio
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from tests.servers import Gateway, silt_server

COMMITS = 200


async def _publish(client: Client, first: int, last: int) -> None:
    """One message a commit: each is acknowledged before the next one is sent."""
    stream = client.jetstream()
    for number in range(first, last):
        headers = {"Nats-Msg-Id": f"id-{number}"} if number % 2 else None
        ack = await stream.publish(f"s.{number % 9}", b"payload %d" % number, headers=headers)
        assert ack.seq == number


async def _take(client: Client, number: int) -> list[bytes]:
    """Fetch and acknowledge, durably, what the consumer gives next."""
    subscription = await client.jetstream().pull_subscribe_bind("c", "S")
    found = await subscription.fetch(number, timeout=10)
    for message in found:
        await message.ack_sync(timeout=10)
    return [message.data for message in found]


async def _shown(client: Client) -> dict[str, Any]:
    """What clients see of the stream and its consumer, a duplicate's answer included."""
    stream = client.jetstream()
    info, consumer = await stream.stream_info("S", subjects_filter=">"), await stream.consumer_info("S", "c")
    messages = [await stream.get_msg("S", seq) for seq in range(info.state.first_seq, info.state.last_seq + 1)]
    again = await stream.publish("s.1", b"again", headers={"Nats-Msg-Id": f"id-{COMMITS - 1}"})
    return {
        "state": (info.state.messages, info.state.bytes, info.state.first_seq, info.state.last_seq),
        "subjects": info.state.subjects,
        "messages": [(one.subject, one.seq, one.data, one.headers) for one in messages],
        "consumer": (consumer.num_pending, consumer.num_ack_pending, consumer.ack_floor, consumer.delivered),
        "again": (again.seq, again.duplicate),
    }


async def _killed_again_and_again(silt: Gateway) -> None:
    client = await nats.connect(silt.hub.url)
    try:
        config = StreamConfig(name="S", subjects=["s.>"], max_msgs_per_subject=20)
        await client.jetstream().add_stream(config)
        await client.jetstream().add_consumer("S", ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT))
        await _publish(client, 1, COMMITS)
        taken = await _take(client, 40)
        before = await _shown(client)
        for _ in range(2):
            silt.child.kill()
            await asyncio.to_thread(silt.start)
            assert await _shown(client) == before
        await _publish(client, COMMITS, COMMITS + 5)
        assert not set(taken) & set(await _take(client, 20))
    finally:
        await client.close()


def test_nothing_is_lost_or_changed_by_crashes(tmp_path: Path) -> None:
    """Messages, bounds, a consumer's place and remembered message ids are the same after each kill."""
    with silt_server(tmp_path) as silt:
        asyncio.run(_killed_again_and_again(silt))
        assert len(list((silt.data / "journal").glob("*.parquet"))) > COMMITS
