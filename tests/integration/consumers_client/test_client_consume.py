"""Consuming from real servers: iterating and by callback, limits, statuses, slow programs, restarts, the end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

from consumers.client import (
    ConsumeOptions,
    Consumer,
    ConsumerConfig,
    ErrorKind,
    JetStreamContext,
    JetStreamError,
    Message,
    StorageType,
)
from consumers.client.consumption import Callback
from consumers.client.errors import ConnectionLost, ConsumerDeleted
from tests.integration.consumers_client.conftest import Server, connected
from tests.integration.consumers_client.traffic import publish, stream_of
from tests.waits import until

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]
WORKER = ConsumerConfig(durable_name="worker", ack_wait=30)
QUICK = ConsumeOptions(max_messages=10, expires=1.0, idle_heartbeat=0.5)


async def _take(consumer: Consumer, count: int, options: ConsumeOptions) -> list[int]:
    numbers = []
    async with consumer.consume(options=options) as messages:
        async for message in messages:
            numbers.append(int(message.data))
            await message.ack()
            if len(numbers) == count:
                break
    return numbers


async def _requests(client: Client, consumer: str) -> list[bytes]:
    """The bodies of pulls, as they are sent from now on."""
    seen: list[bytes] = []

    async def note(message: Any) -> None:
        seen.append(message.data)

    await client.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.WORK.{consumer}", cb=note)
    await client.flush()
    return seen


@pytest.mark.parametrize(
    "options",
    [
        ConsumeOptions(),
        ConsumeOptions(max_messages=1),
        ConsumeOptions(max_messages=50, threshold_messages=49),
        ConsumeOptions(max_messages=7, threshold_messages=0),
        ConsumeOptions(max_bytes=1000),
        ConsumeOptions(max_bytes=150),
        ConsumeOptions(max_bytes=5000, threshold_bytes=5000),
    ],
    ids=repr,
)
def test_many_pulls_bring_every_message_once(run: Run, options: ConsumeOptions) -> None:
    """Whatever the buffer and the threshold, all messages come in order and none twice."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 300, size=30)
        consumer = await stream.create_consumer(WORKER)
        assert await _take(consumer, 300, options) == list(range(300))
        await until_settled(consumer)

    run(test)


async def until_settled(consumer: Consumer) -> None:
    """Wait until the server has every acknowledgement and knows of no pull."""

    async def settled() -> bool:
        info = await consumer.info()
        return (info.num_ack_pending, info.num_pending, info.num_waiting, info.num_redelivered) == (0, 0, 0, 0)

    await until(settled)


def test_a_callback_gets_messages_until_drained(run: Run) -> None:
    """Messages go to the callback as they come; after a drain it has had all that was received, and no more come."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 20)
        consumer = await stream.create_consumer(WORKER)
        seen: list[int] = []

        async def handle(message: Message) -> None:
            seen.append(int(message.data))
            await message.ack()

        async with consumer.consume(handle, options=QUICK) as consumption:
            await until(lambda: len(seen) == 20)
            await publish(client, 20, 25)
            await until(lambda: len(seen) == 25)
            await consumption.drain()
            await consumption.wait()
            await publish(client, 25, 30)
        assert seen == list(range(25))
        assert await _take(consumer, 5, QUICK) == list(range(25, 30))

    run(test)


def test_a_failing_callback_ends_consuming_with_its_error(run: Run) -> None:
    """What a callback raises comes out of the block as it is, and nothing is left subscribed."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 3)
        consumer = await stream.create_consumer(WORKER)

        async def handle(message: Message) -> None:
            raise ZeroDivisionError(message.data)

        with pytest.raises(ZeroDivisionError):
            async with consumer.consume(handle) as consumption:
                await consumption.wait()
        assert client._subs.keys() == {1}

    run(test)


def test_an_error_in_the_block_comes_out_as_it_is(run: Run) -> None:
    """The program's own error, and its cancellation, pass through unchanged."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 3)
        consumer = await stream.create_consumer(WORKER)

        async def fail() -> None:
            async with consumer.consume() as messages:
                async for message in messages:
                    raise ZeroDivisionError(message.data)

        with pytest.raises(ZeroDivisionError):
            await fail()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), consumer.consume():
                await asyncio.sleep(10)
        assert client._subs.keys() == {1}

    run(test)


def test_a_slow_program_is_not_flooded(run: Run) -> None:
    """The buffer never holds more than its room, and a program slower than every time-out misses nothing."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 30)
        consumer = await stream.create_consumer(WORKER)
        warnings: list[JetStreamError] = []
        options = ConsumeOptions(max_messages=4, expires=1.0, idle_heartbeat=0.5)
        seen = []
        async with consumer.consume(options=options, on_warning=warnings.append) as messages:
            async for message in messages:
                seen.append(int(message.data))
                assert messages.buffered <= messages.pending <= 4
                if len(seen) in {1, 10}:
                    await asyncio.sleep(1.5)
                info = await consumer.info()
                assert info.num_ack_pending is not None
                assert info.num_ack_pending <= 5
                await message.double_ack()
                if len(seen) == 30:
                    break
        assert seen == list(range(30))
        assert warnings == []

    run(test)


def test_a_drain_hands_over_what_was_received(run: Run) -> None:
    """Draining within the loop ends it after the buffer; what was not received stays with the server."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 30)
        consumer = await stream.create_consumer(WORKER)
        seen = []
        async with consumer.consume(options=ConsumeOptions(max_messages=10)) as messages:
            async for message in messages:
                seen.append(int(message.data))
                await message.double_ack()
                if len(seen) == 3:
                    await messages.drain()
                    assert messages.buffered >= 7
        assert 10 <= len(seen) < 30
        await until_floor(consumer, len(seen))
        rest = await consumer.fetch(100, no_wait=True).all()
        assert seen + [int(message.data) for message in rest] == list(range(30))

    run(test)


async def until_floor(consumer: Consumer, floor: int) -> None:
    """Check that all that was handed over is acknowledged, and nothing else was delivered."""
    info = await consumer.info()
    assert info.ack_floor is not None
    assert (info.ack_floor.stream_seq, info.num_ack_pending) == (floor, 0)


def test_a_stop_ends_iteration_at_once(run: Run) -> None:
    """Stopping drops the buffer, and iteration ends."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 30)
        consumer = await stream.create_consumer(WORKER)
        seen = 0
        async with consumer.consume() as messages:
            async for _ in messages:
                seen += 1
                if seen == 3:
                    await messages.stop()
        assert (seen, messages.buffered) == (3, 0)

    run(test)


def test_a_quiet_consumer_costs_one_pull_an_expiry(run: Run) -> None:
    """Pulls that expire are followed by others, silently and one at a time, and messages still arrive."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 0)
        consumer = await stream.create_consumer(WORKER)
        pulls = await _requests(client, "worker")
        warnings: list[JetStreamError] = []
        async with consumer.consume(options=QUICK, on_warning=warnings.append) as messages:
            await until(lambda: len(pulls) == 3)
            assert (await consumer.info()).num_waiting == 1
            await publish(client, 0, 1)
            assert (await anext(messages)).data == b"0"
        assert warnings == []

    run(test)


async def _handle_all(consumer: Consumer, handle: Callback, *, by_callback: bool) -> None:
    if by_callback:
        async with consumer.consume(handle) as consumption:
            await consumption.wait()
    else:
        async with consumer.consume() as messages:
            async for message in messages:
                await handle(message)


def test_a_deleted_consumer_ends_consuming(run: Run) -> None:
    """What was received is handed over, then the deletion is raised; by callback it comes out of the block."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 3)
        for by_callback in (False, True):
            consumer = await stream.create_consumer(WORKER)
            seen: list[int] = []

            async def handle(message: Message, seen: list[int] = seen) -> None:
                seen.append(int(message.data))
                if len(seen) == 3:
                    await js.delete_consumer("WORK", "worker")

            with pytest.raises(ConsumerDeleted) as caught:
                await _handle_all(consumer, handle, by_callback=by_callback)
            assert (seen, caught.value.kind) == ([0, 1, 2], ErrorKind.CONSUMER_DELETED)

    run(test)


def test_refused_pulls_are_told_and_tried_at_a_pace(run: Run) -> None:
    """Beyond the consumer's limit each pull is refused: warnings, and ever longer pauses instead of a storm."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="worker", max_batch=5))
        pulls = await _requests(client, "worker")
        warnings: list[JetStreamError] = []
        async with consumer.consume(options=QUICK, on_warning=warnings.append) as messages:
            await until(lambda: len(warnings) >= 4)
            assert {warning.kind for warning in warnings} == {ErrorKind.PULL_LIMIT_EXCEEDED}
            assert len(pulls) <= len(warnings) + 1
            await js.update_consumer("WORK", ConsumerConfig(durable_name="worker", max_batch=50))
            assert (await anext(messages)).data == b"0"

    run(test)


def test_a_consumer_that_is_not_there_yet_is_waited_for(run: Run) -> None:
    """Nobody serving the pulls is a warning; once the consumer exists its messages arrive."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        consumer = await stream.create_consumer(WORKER)
        await consumer.delete()
        warnings: list[JetStreamError] = []
        async with consumer.consume(options=QUICK, on_warning=warnings.append) as messages:
            await until(lambda: len(warnings) >= 2)
            assert {warning.kind for warning in warnings} == {ErrorKind.NO_RESPONDERS}
            await stream.create_consumer(WORKER)
            assert (await anext(messages)).data == b"0"

    run(test)


def test_a_message_that_never_fits_is_told(run: Run) -> None:
    """A message larger than max_bytes is a warning; what fits before and after its removal arrives."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 3, size=20)
        await client.publish("work.0", b"9" * 2000)
        await client.flush()
        consumer = await stream.create_consumer(WORKER)
        warnings: list[JetStreamError] = []
        options = ConsumeOptions(max_bytes=500)
        async with consumer.consume(options=options, on_warning=warnings.append) as messages:
            for number in range(3):
                assert int((await anext(messages)).data) == number
            await until(lambda: warnings)
            assert {warning.kind for warning in warnings} == {ErrorKind.MESSAGE_TOO_LARGE}
            await stream.delete_msg(4)
            await client.publish("work.0", b"5")
            assert (await anext(messages)).data == b"5"

    run(test)


def test_bytes_are_counted_with_any_headers(run: Run) -> None:
    """Headers, also ones that are repeated and so not all seen, don't let the accounting drift until it is stuck."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 0)
        block = b"NATS/1.0\r\n" + b"Same: a long value that is repeated\r\n" * 5 + b"\r\n"
        for _ in range(100):
            await client._send_command(b"HPUB work.1 %d %d\r\n%b\r\n" % (len(block), len(block) + 1, block + b"x"))
        await client.flush()
        consumer = await stream.create_consumer(WORKER)
        async with asyncio.timeout(20), consumer.consume(options=ConsumeOptions(max_bytes=700)) as messages:
            for _ in range(100):
                await anext(messages)

    run(test)


def test_a_server_restart_is_survived(run: Run, server: Server) -> None:
    """Killed and started again while consuming: pulls go out again, every message is handled, nothing is raised."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 40, storage=StorageType.FILE)
        consumer = await stream.create_consumer(ConsumerConfig(durable_name="worker", ack_wait=1))
        seen: set[int] = set()
        restarts = 0
        async with consumer.consume(options=QUICK) as messages:
            async for message in messages:
                seen.add(int(message.data))
                await message.ack()
                if seen == set(range(20)) and not restarts:  # acks on their way are lost with it: these come again
                    restarts += 1
                    await asyncio.to_thread(server.restart)
                if seen == set(range(40)):
                    await until(lambda: client.is_connected)
                    await publish(client, 40, 45)
                if seen == set(range(45)):
                    break

    run(test)


def test_a_new_connection_gets_a_new_pull(run: Run) -> None:
    """A connection lost and back between two looks is noticed: a message published then arrives without a time-out."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 1)
        consumer = await stream.create_consumer(WORKER)
        pulls = await _requests(client, "worker")
        warnings: list[JetStreamError] = []
        async with consumer.consume(on_warning=warnings.append) as messages:
            await anext(messages)
            for round_ in range(1, 4):
                before = len(pulls)
                await client.force_reconnect()
                await until(lambda: client.is_connected)
                await until(lambda before=before: len(pulls) > before)  # type: ignore[misc]
                await publish(client, round_, round_ + 1)
                assert int((await anext(messages)).data) == round_
        assert warnings == []

    run(test)


@pytest.mark.parametrize("drain", [False, True])
def test_a_closed_connection_ends_consuming(run: Run, server_url: str, drain: bool) -> None:
    """Closed or drained by the program: what was received is handed over, then it is an error."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        await stream.create_consumer(WORKER)
        async with connected(server_url) as other:
            consumer = await JetStreamContext(other).get_consumer("WORK", "worker")
            seen = []

            async def read() -> None:
                async with consumer.consume() as messages:
                    async for message in messages:
                        seen.append(int(message.data))
                        if len(seen) == 2:
                            await until(lambda: messages.buffered == 3)
                            await (other.drain() if drain else other.close())

            with pytest.raises(ConnectionLost):
                await read()
        assert seen == list(range(5))

    run(test)


def test_a_drained_consumption_outlives_its_connection(run: Run, server_url: str) -> None:
    """Drained first, its buffer is handed over and it ends without an error, though the connection is closed."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        await stream.create_consumer(WORKER)
        async with connected(server_url) as other:
            consumer = await JetStreamContext(other).get_consumer("WORK", "worker")
            async with consumer.consume() as messages:
                await until(lambda: messages.buffered == 5)
                await messages.drain()
                await other.close()
                await asyncio.sleep(0.3)
                assert [int(message.data) async for message in messages] == list(range(5))

    run(test)
