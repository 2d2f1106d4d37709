"""Fetch, next and acknowledgements against real servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

from consumers.client import AckPolicy, Consumer, ConsumerConfig, ErrorKind, FetchEnd, JetStreamContext, JetStreamError
from consumers.client.errors import AlreadyAcknowledged, UsageError
from tests.integration.consumers_client.traffic import publish, stream_of
from tests.waits import until

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]
WORKER = ConsumerConfig(durable_name="worker", ack_wait=30)


async def _refused(call: Awaitable[Any]) -> ErrorKind:
    with pytest.raises(JetStreamError) as caught:
        await call
    return caught.value.kind


async def _waits(consumer: Consumer) -> bool:
    return (await consumer.info()).num_waiting == 1


def test_a_fetch_gives_what_is_asked_for_and_says_how_it_ended(run: Run) -> None:
    """By number, by bytes, without waiting, and until it expires."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 10, size=100)
        consumer = await stream.create_consumer(WORKER)
        served = consumer.fetch(4)
        assert [int(message.data) async for message in served] == [0, 1, 2, 3]
        assert served.end is FetchEnd.SERVED
        some_bytes = consumer.fetch(max_bytes=500)
        assert [int(message.data) async for message in some_bytes] == [4, 5, 6]
        assert some_bytes.end in {FetchEnd.BYTES, FetchEnd.TOO_LARGE}
        too_small = consumer.fetch(max_bytes=50)
        assert await too_small.all() == []
        assert too_small.end is FetchEnd.TOO_LARGE
        rest = consumer.fetch(100, no_wait=True)
        assert [int(message.data) for message in await rest.all()] == [7, 8, 9]
        assert rest.end is FetchEnd.NO_MESSAGES
        nothing = consumer.fetch(5, no_wait=True)
        assert (await nothing.all(), nothing.end) == ([], FetchEnd.NO_MESSAGES)
        expired = consumer.fetch(5, expires=0.3)
        assert (await expired.all(), expired.end) == ([], FetchEnd.EXPIRED)
        with pytest.raises(UsageError):
            await expired.all()

    run(test)


def test_a_fetch_gives_messages_as_they_come(run: Run) -> None:
    """Messages published while a fetch waits, with heartbeats in between, are handed over at once."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 1)
        consumer = await stream.create_consumer(WORKER)
        seen = []
        async for message in consumer.fetch(3, expires=10, idle_heartbeat=0.2):
            seen.append(int(message.data))
            if len(seen) == 1:
                await asyncio.sleep(0.7)
            await publish(client, len(seen), len(seen) + 1)
        assert seen == [0, 1, 2]

    run(test)


def test_a_fetch_left_early_leaves_nothing_behind(run: Run) -> None:
    """Leaving the loop ends the pull: messages published after it go to the next one."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 2)
        consumer = await stream.create_consumer(WORKER)
        async with consumer.fetch(10, expires=10) as fetch:
            async for message in fetch:
                assert int(message.data) == 0
                break
        await client.flush()
        await publish(client, 2, 4)
        fetched = await consumer.fetch(2, expires=2).all()
        assert [int(message.data) for message in fetched] == [2, 3]
        assert client._subs.keys() == {1}, "only the connection's own inbox is subscribed"

    run(test)


def test_next_is_a_message_or_none(run: Run) -> None:
    """One message, and None when its time is over."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 1)
        consumer = await stream.create_consumer(WORKER)
        message = await consumer.next(expires=5)
        assert message is not None
        assert message.data == b"0"
        assert (message.metadata.stream, message.metadata.consumer, message.metadata.stream_seq) == (
            "WORK",
            "worker",
            1,
        )
        stored = await stream.get_msg(1)
        assert (message.metadata.timestamp_ns, message.subject) == (stored.timestamp_ns, stored.subject)
        assert await consumer.next(expires=0.2) is None

    run(test)


def test_refused_pulls_are_errors(run: Run) -> None:
    """Too much at once, a push consumer, a consumer that is not there, one that goes meanwhile: each by its kind."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 0)
        small = await stream.create_consumer(ConsumerConfig(name="small", max_batch=5, max_expires=1.0, max_bytes=50))
        assert await _refused(small.fetch(6, expires=0.5).all()) == ErrorKind.PULL_LIMIT_EXCEEDED
        assert await _refused(small.fetch(5, expires=1.5).all()) == ErrorKind.PULL_LIMIT_EXCEEDED
        assert await _refused(small.fetch(5, max_bytes=51, expires=0.5).all()) == ErrorKind.PULL_LIMIT_EXCEEDED
        push = await stream.create_consumer(ConsumerConfig(name="push", deliver_subject="to.here"))
        assert await _refused(push.next(expires=0.5)) in {ErrorKind.CONSUMER_IS_PUSH, ErrorKind.NO_RESPONDERS}
        gone = await stream.create_consumer(ConsumerConfig(name="gone"))
        await gone.delete()
        assert await _refused(gone.next(expires=5)) == ErrorKind.NO_RESPONDERS
        going = await stream.create_consumer(ConsumerConfig(name="going"))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(_refused(going.next(expires=5)))
            await until(lambda: _waits(going))
            await going.delete()
        assert waiting.result() == ErrorKind.CONSUMER_DELETED

    run(test)


def test_acknowledgements_do_what_they_say(run: Run) -> None:
    """Ack, double ack, nak with and without delay, in progress and term, as the server counts them."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="acks", ack_wait=0.6))
        advisories = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>")
        first, second, third, fourth, fifth = await consumer.fetch(5).all()
        await second.double_ack()
        assert (await consumer.info()).num_ack_pending == 4
        await first.ack()
        await third.nak()
        await fourth.term("not today")
        assert b"not today" in (await advisories.next_msg(timeout=5)).data
        again = await consumer.next(expires=5)
        assert again is not None
        assert (again.data, again.metadata.delivered) == (b"2", 2)
        await again.nak(delay=0.2)
        for _ in range(8):
            await fifth.in_progress()
            await asyncio.sleep(0.1)
        late = await consumer.next(expires=5)
        assert late is not None
        assert (late.data, late.metadata.delivered) == (b"2", 3)
        await late.double_ack()
        assert (await consumer.info()).num_ack_pending == 1
        repeated = await consumer.next(expires=5)
        assert repeated is not None
        assert repeated.data == b"4", "in progress put it off, and then no longer"
        await repeated.double_ack()
        state = await consumer.info()
        assert state.ack_floor is not None
        assert (state.num_ack_pending, state.ack_floor.stream_seq) == (0, 5)
        for once in (late.ack(), late.double_ack(), late.nak(), late.term(), late.in_progress()):
            with pytest.raises(AlreadyAcknowledged):
                await once

    run(test)


def test_headers_of_a_message_are_no_status(run: Run) -> None:
    """A stored message that carries a Status header of its own is a message."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 0)
        headers = {"Status": "409", "Description": "Consumer Deleted", "Own": "wört"}
        await client.publish("work.1", b"", headers=headers)
        consumer = await stream.create_consumer(WORKER)
        message = await consumer.next(expires=5)
        assert message is not None
        assert message.headers == headers
        assert (await stream.get_msg(1)).headers == headers
        assert (await stream.get_msg(1, direct=False)).headers == headers
        assert [stored.headers async for stored in stream.get_batch(5)] == [headers]
        ordered = await stream.ordered_consumer().next(expires=5)
        assert ordered is not None
        assert ordered.headers == headers

    run(test)


def test_a_lost_connection_ends_a_fetch(run: Run, server_url: str) -> None:
    """The pull is gone with the connection: the fetch hands over what came, and says so at once."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 2)
        consumer = await stream.create_consumer(ConsumerConfig(name="none", ack_policy=AckPolicy.NONE))
        seen = []

        async def read() -> None:
            async for message in consumer.fetch(5, expires=30):
                seen.append(message.data)
                if len(seen) == 2:
                    await client.force_reconnect()

        assert await _refused(read()) == ErrorKind.CONNECTION_LOST
        assert seen == [b"0", b"1"]

    run(test)
