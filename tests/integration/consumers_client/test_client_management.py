"""Streams, messages and consumers are made, changed, listed and deleted; errors come with their kind."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.aio.client import Client

from consumers.client import ConsumerConfig, ErrorKind, JetStreamContext, JetStreamError, StorageType, StreamConfig
from consumers.client.errors import StreamNotFound

ORDERS = StreamConfig(name="ORDERS", subjects=["orders.>"], description="first", storage=StorageType.MEMORY)
Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]


async def _refused(call: Awaitable[Any]) -> ErrorKind:
    with pytest.raises(JetStreamError) as caught:
        await call
    return caught.value.kind


async def _published(client: Client, subject: str, count: int) -> None:
    for number in range(count):
        await client.publish(f"{subject}.{number % 3}", b"%d" % number, headers={"Number": str(number)})
    await client.flush()


def test_streams_come_change_and_go(run: Run) -> None:
    """Add, get, update, list, names by subject and delete see the same stream."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(ORDERS)
        assert (stream.name, stream.cached_info.config.description) == ("ORDERS", "first")
        assert (await js.add_stream(ORDERS)).name == "ORDERS", "the same again is no error"
        assert await _refused(js.add_stream(replace(ORDERS, max_msgs=7))) == ErrorKind.ALREADY_EXISTS
        changed = await js.update_stream(replace(ORDERS, description="second"))
        assert changed.cached_info.config.description == "second"
        assert (await (await js.get_stream("ORDERS")).info()).config.description == "second"
        await js.add_stream(StreamConfig(name="OTHER", subjects=["other"]))
        assert sorted([name async for name in js.stream_names()]) == ["ORDERS", "OTHER"]
        assert [name async for name in js.stream_names(subject="other")] == ["OTHER"]
        assert [info.config.name async for info in js.list_streams(subject="orders.1")] == ["ORDERS"]
        await js.delete_stream("ORDERS")
        assert await _refused(js.get_stream("ORDERS")) == ErrorKind.STREAM_NOT_FOUND
        assert await _refused(js.delete_stream("ORDERS")) == ErrorKind.STREAM_NOT_FOUND
        assert await _refused(js.update_stream(ORDERS)) == ErrorKind.STREAM_NOT_FOUND
        assert await _refused(js.add_stream(replace(ORDERS, name="a.b"))) == ErrorKind.USAGE
        assert await _refused(js.add_stream(replace(ORDERS, num_replicas=9))) == ErrorKind.INVALID_REQUEST
        assert (await js.account_info()).streams == 1

    run(test)


def test_lists_go_over_pages(run: Run) -> None:
    """More streams and consumers than a page holds are all listed."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(StreamConfig(name="PAGES", subjects=["pages"], storage=StorageType.MEMORY))
        wanted = {f"c{number:03}" for number in range(260)}
        for name in wanted:
            await stream.create_consumer(ConsumerConfig(name=name, mem_storage=True))
        assert {name async for name in stream.consumer_names()} == wanted
        listed = [info.name async for info in stream.list_consumers()]
        assert len(listed) == 260
        assert set(listed) == wanted

    run(test)


def test_messages_are_read_deleted_and_purged(run: Run) -> None:
    """A message is found by each of its keys; purge by filter, sequence and number removes what it says."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(ORDERS)
        before = datetime.now(UTC) - timedelta(seconds=60)
        await _published(client, "orders", 12)
        for direct in (False, True):
            if direct:
                stream = await js.update_stream(replace(ORDERS, allow_direct=True))
            third = await stream.get_msg(3)
            assert (third.seq, third.subject, third.data, third.headers) == (3, "orders.2", b"2", {"Number": "2"})
            assert before < third.timestamp < datetime.now(UTC) + timedelta(seconds=60)
            assert (await stream.get_msg(last_for="orders.1")).seq == 11
            assert (await stream.get_msg(last_for="orders.*")).seq == 12
            assert (await stream.get_msg(4, next_for="orders.0")).seq == 4
            assert (await stream.get_msg(5, next_for="orders.0")).seq == 7
            assert (await stream.get_msg(next_for="orders.2", start_time=before)).seq == 3
            kind = ErrorKind.NOTHING_FOUND if direct else ErrorKind.MESSAGE_NOT_FOUND
            assert await _refused(stream.get_msg(99)) == kind
            assert await _refused(stream.get_msg(last_for="orders.none")) == kind
        await stream.delete_msg(3)
        await stream.delete_msg(6, erase=False)
        assert await _refused(stream.delete_msg(3)) == ErrorKind.MESSAGE_NOT_FOUND
        info = await stream.info(deleted_details=True, subjects_filter="orders.>")
        assert info.state.deleted == [3, 6]
        assert info.state.subjects == {"orders.0": 4, "orders.1": 4, "orders.2": 2}
        assert await stream.purge(filter="orders.2") == 2
        assert await stream.purge(seq=3) == 2
        assert await stream.purge(keep=1) == 5
        assert await stream.purge() == 1
        assert await _refused(stream.purge(seq=1, keep=1)) == ErrorKind.USAGE

    run(test)


def test_consumers_come_change_and_go(run: Run) -> None:
    """Create, update, create-or-update, get, pause, resume and delete, by stream and by context."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(ORDERS)
        config = ConsumerConfig(
            durable_name="work", filter_subject="orders.1", max_batch=7, max_expires=3.0, ack_wait=2.5, backoff=[1, 2],
            max_deliver=4,
        )  # fmt: skip
        consumer = await stream.create_consumer(config)
        assert consumer.name == "work"
        assert consumer.cached_info is not None
        seen = consumer.cached_info.config
        assert isinstance(seen, ConsumerConfig)
        assert (seen.max_batch, seen.max_expires, seen.backoff, seen.filter_subject) == (7, 3.0, [1.0, 2.0], "orders.1")
        assert (await stream.create_consumer(config)).name == "work", "the same again is no error"
        changed = replace(config, description="changed")
        assert await _refused(stream.create_consumer(changed)) == ErrorKind.ALREADY_EXISTS
        assert (
            await _refused(stream.update_consumer(replace(config, durable_name="no"))) == ErrorKind.CONSUMER_NOT_FOUND
        )
        await js.update_consumer("ORDERS", changed)
        assert (await consumer.info()).config.description == "changed"
        await js.create_or_update_consumer("ORDERS", config)
        assert not (await (await js.get_consumer("ORDERS", "work")).info()).config.description
        nameless = await js.create_consumer("ORDERS", ConsumerConfig())
        assert {name async for name in stream.consumer_names()} == {"work", nameless.name}
        until = datetime.now(UTC) + timedelta(seconds=60)
        assert (await consumer.pause(until)).paused
        assert (await consumer.info()).paused
        assert not (await consumer.resume()).paused
        await js.delete_consumer("ORDERS", nameless.name)
        await consumer.delete()
        assert await _refused(consumer.info()) == ErrorKind.CONSUMER_NOT_FOUND
        assert await _refused(stream.get_consumer("work")) == ErrorKind.CONSUMER_NOT_FOUND
        assert await _refused(js.get_consumer("NONE", "work")) == ErrorKind.STREAM_NOT_FOUND
        both = ConsumerConfig(name="a", durable_name="b")
        assert await _refused(stream.create_consumer(both)) == ErrorKind.USAGE

    run(test)


def test_no_answer_is_an_error_in_time(run: Run) -> None:
    """Where nobody serves the API, or the connection is closed, every call says so instead of waiting."""

    async def test(js: JetStreamContext, client: Client) -> None:
        nowhere = JetStreamContext(client, domain="nowhere")
        assert await _refused(nowhere.account_info()) == ErrorKind.NO_RESPONDERS
        silent = JetStreamContext(client, prefix="silent", timeout=0.05)
        await client.subscribe("silent.>")
        assert await _refused(silent.account_info()) == ErrorKind.REQUEST_TIMEOUT
        await client.close()
        assert await _refused(js.account_info()) == ErrorKind.CONNECTION_LOST

    run(test)


def test_a_cancelled_call_is_cancelled(run: Run) -> None:
    """Cancelling a request ends it with CancelledError, not with an answer or an error of ours."""

    async def test(js: JetStreamContext, client: Client) -> None:
        silent = JetStreamContext(client, prefix="silent", timeout=30)
        await client.subscribe("silent.>")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await silent.get_stream("X")
        with pytest.raises(StreamNotFound):
            await js.get_stream("X")

    run(test)
