"""Cancelled at any point, the client raises CancelledError and leaves nothing behind on the connection."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from consumers.client import ConsumeOptions, ConsumerConfig, JetStreamContext, Stream
from tests.integration.consumers_client.conftest import connected
from tests.integration.consumers_client.traffic import stream_of

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]
TURNS = 25
OPTIONS = ConsumeOptions(max_messages=3)


async def _consume(stream: Stream) -> None:
    consumer = await stream.get_consumer("worker")
    async with consumer.consume(options=OPTIONS) as messages:
        async for message in messages:
            await message.ack()


async def _callback(stream: Stream) -> None:
    consumer = await stream.get_consumer("worker")
    async with consumer.consume(lambda message: message.double_ack(), options=OPTIONS) as consumption:
        await consumption.wait()


async def _drain(stream: Stream) -> None:
    consumer = await stream.get_consumer("worker")
    async with consumer.consume(options=OPTIONS) as messages:
        await messages.drain()
        await asyncio.sleep(60)


async def _ordered(stream: Stream) -> None:
    async with stream.ordered_consumer().consume(options=OPTIONS) as messages:
        async for _ in messages:
            pass


async def _fetch(stream: Stream) -> None:
    consumer = await stream.get_consumer("worker")
    async for message in consumer.fetch(1000, expires=60):
        await message.ack()


async def _batch(stream: Stream) -> None:
    while True:
        async for _ in stream.get_batch(50):
            await asyncio.sleep(0)


@pytest.mark.parametrize("read", [_consume, _callback, _drain, _ordered, _fetch, _batch])
def test_nothing_is_left_after_a_cancellation(run: Run, read: Callable[[Stream], Awaitable[None]]) -> None:
    """After each number of turns of the loop a reader is cancelled: it ends so, unsubscribed, without a task left."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 40)
        await stream.create_consumer(ConsumerConfig(durable_name="worker", ack_wait=30))
        own = asyncio.all_tasks()
        for turns in range(TURNS):
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(_run(read, stream))
                for _ in range(turns):
                    await asyncio.sleep(0 if turns < TURNS - 5 else 0.002)
                task.cancel()
            assert task.cancelled(), turns
            await asyncio.sleep(0)
            assert client._subs.keys() == {1}, turns
            assert asyncio.all_tasks() <= own, turns
        assert [name async for name in stream.consumer_names()] == ["worker"]

    run(test)


def test_a_consumer_whose_creation_arrives_late_is_deleted(run: Run, server_url: str) -> None:
    """A cancelled ordered consumer's creation reaches the server late, any other request at once: none is left."""

    async def test(js: JetStreamContext, client: Client) -> None:
        await stream_of(js, client, 40)
        async with connected(server_url) as relay, asyncio.TaskGroup() as passing:
            created = asyncio.Event()

            async def pass_on(request: Msg) -> None:
                late = ".CONSUMER.CREATE." in request.subject
                if late:
                    created.set()
                    await asyncio.sleep(0.2)
                await relay.publish("$JS.API" + request.subject.removeprefix("late"), request.data, reply=request.reply)

            async def receive(request: Msg) -> None:
                passing.create_task(pass_on(request))

            await relay.subscribe("late.>", cb=receive)
            await relay.flush()
            stream = await JetStreamContext(client, prefix="late").get_stream("WORK")
            task = asyncio.create_task(_run(_ordered, stream))
            await created.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await asyncio.sleep(0.3)
            assert [name async for name in stream.consumer_names()] == []

    run(test)


async def _run(read: Callable[[Stream], Awaitable[None]], stream: Stream) -> None:
    await read(stream)
