"""Publishing with a bound on what is in flight, against real servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

from consumers.client import JetStreamContext, StreamConfig
from consumers.client.errors import ApiError, NoResponders, RequestTimeout
from consumers.client.publishing import MSG_ID, BulkPublisher
from tests.integration.consumers_client.conftest import Server
from tests.waits import until

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]


async def _stream(js: JetStreamContext, **config: Any) -> None:
    await js.add_stream(StreamConfig(name="PUB", subjects=["pub.>"], **config))


async def _held(js: JetStreamContext) -> int:
    return (await (await js.get_stream("PUB")).info()).state.messages


async def _publish(publisher: BulkPublisher, number: int) -> None:
    for at in range(number):
        await publisher.publish(f"pub.{at % 5}", b"x", {MSG_ID: f"id-{at}"})
    await publisher.done()


def test_what_is_published_is_acknowledged_and_known_by_its_id(run: Run) -> None:
    """A few in flight carry many messages; published again they add nothing."""

    async def test(js: JetStreamContext, client: Client) -> None:
        await _stream(js)
        async with BulkPublisher(client, most=50) as publisher:
            await _publish(publisher, 2000)
            assert (publisher.stored, publisher.duplicates, await _held(js)) == (2000, 0, 2000)
            await _publish(publisher, 2000)
            assert (publisher.stored, publisher.duplicates, await _held(js)) == (2000, 2000, 2000)

    run(test)


def test_a_refusal_is_raised_with_its_code(run: Run) -> None:
    """By the call that follows it, or by the wait for all; nothing that comes later is sent."""

    async def test(js: JetStreamContext, client: Client) -> None:
        await _stream(js, max_msg_size=10)
        async with BulkPublisher(client) as publisher:
            await publisher.publish("pub.a", b"x" * 100, {MSG_ID: "large"})
            with pytest.raises(ApiError, match=r"publishing to pub\.a: .*code 400, err_code 10054") as caught:
                await publisher.done()
            assert caught.value.err_code == 10054
            with pytest.raises(ApiError):
                await publisher.publish("pub.a", b"x", {MSG_ID: "small"})
        assert await _held(js) == 0
        async with BulkPublisher(client, give_up_seconds=0.3) as publisher:
            await publisher.publish("nothing.there", b"x", {MSG_ID: "one"})
            with pytest.raises(NoResponders, match=r"publishing to nothing\.there: no stream takes it"):
                await publisher.done()

    run(test)


def test_an_answer_that_does_not_come_is_not_waited_for(run: Run) -> None:
    """A message without an id is not sent again: it may have arrived."""

    async def test(js: JetStreamContext, client: Client) -> None:
        heard: list[bytes] = []

        async def silent(message: Any) -> None:
            heard.append(message.data)

        await client.subscribe("silent", cb=silent)
        async with BulkPublisher(client, ack_seconds=0.1) as publisher:
            await publisher.publish("silent", b"once", {})
            with pytest.raises(RequestTimeout, match="publishing to silent: no acknowledgement in time"):
                await publisher.done()
        async with BulkPublisher(client, ack_seconds=0.1, give_up_seconds=0.35) as publisher:
            await publisher.publish("silent", b"more", {MSG_ID: "id"})
            with pytest.raises(RequestTimeout):
                await publisher.done()
        assert heard.count(b"once") == 1
        assert heard.count(b"more") > 1

    run(test)


def test_a_restart_of_the_server_loses_and_doubles_nothing(run: Run, server: Server) -> None:
    """What was in flight when the connection broke is sent again under its id."""

    async def test(js: JetStreamContext, client: Client) -> None:
        await _stream(js)
        async with BulkPublisher(client, most=200, ack_seconds=0.5) as publisher, asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(_publish(publisher, 5000))
            await until(lambda: publisher.stored >= 500)
            await asyncio.to_thread(server.restart)
            await publishing
        assert await _held(js) == 5000

    run(test)
