"""Ordered consumers on real servers: in order and complete, whatever happens to the consumer behind them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from consumers.client import (
    ConsumeOptions,
    DeliverPolicy,
    ErrorKind,
    JetStreamContext,
    JetStreamError,
    OrderedOptions,
    StorageType,
)
from consumers.client.errors import StreamNotFound, UsageError
from tests.integration.consumers_client.conftest import Server
from tests.integration.consumers_client.traffic import publish, stream_of
from tests.waits import until

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]
QUICK = ConsumeOptions(max_messages=10, expires=1.0, idle_heartbeat=0.5)


def test_all_messages_come_in_order(run: Run) -> None:
    """Over many pulls, from where the options say, and the server keeps nothing afterwards."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 100)
        for options, wanted in (
            (OrderedOptions(), list(range(100))),
            (OrderedOptions(filter_subjects=["work.1"]), list(range(1, 100, 3))),
            (
                OrderedOptions(filter_subjects=["work.0", "work.2"], headers_only=False),
                [n for n in range(100) if n % 3 != 1],
            ),
            (OrderedOptions(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=90), list(range(89, 100))),
            (OrderedOptions(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subjects=[">"]), [97, 98, 99]),
        ):
            seen = []
            async with stream.ordered_consumer(options).consume(options=QUICK) as messages:
                async for message in messages:
                    seen.append(int(message.data))
                    if len(seen) == len(wanted):
                        break
            assert seen == wanted
        assert [name async for name in stream.consumer_names()] == []

    run(test)


def test_readers_go_on_where_the_last_one_was(run: Run) -> None:
    """Fetch, next and consume in turn continue behind what was handed over; one reader at a time."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 30)
        ordered = stream.ordered_consumer()
        seen = [int(message.data) for message in await ordered.fetch(5, expires=5)]
        message = await ordered.next(expires=5)
        assert message is not None
        seen.append(int(message.data))
        async with ordered.consume() as messages:
            async for message in messages:
                seen.append(int(message.data))
                if len(seen) == 12:
                    break
            with pytest.raises(UsageError):
                await ordered.fetch(1)
            assert (await ordered.info()).config.mem_storage
        assert ordered.last_seq == 12
        seen += [int(message.data) for message in await ordered.fetch(100, expires=0.5)]
        assert seen == list(range(30))
        assert await ordered.next(expires=0.2) is None

    run(test)


def test_a_deleted_consumer_is_replaced(run: Run) -> None:
    """Deleted while reading and while idle, the reader goes on with the next message; the reason is told."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 30)
        ordered = stream.ordered_consumer()
        warnings: list[JetStreamError] = []
        seen = []
        async with ordered.consume(options=QUICK, on_warning=warnings.append) as messages:
            async for message in messages:
                seen.append(int(message.data))
                if len(seen) in {5, 30}:
                    name = (await ordered.info()).name
                    await stream.delete_consumer(name)
                    if len(seen) == 30:
                        before = len(warnings)
                        await until(lambda before=before: len(warnings) > before)  # type: ignore[misc]
                        await publish(client, 30, 40)
                if len(seen) == 40:
                    break
        assert seen == list(range(40))
        assert {warning.kind for warning in warnings} <= {ErrorKind.CONSUMER_DELETED, ErrorKind.NO_RESPONDERS}

    run(test)


def test_lost_messages_are_read_again(run: Run) -> None:
    """Messages that are dropped on their way to the program are noticed and come, in order, from a new consumer."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 200)
        warnings: list[JetStreamError] = []
        seen, arrived, dropped = [], 0, 0
        async with stream.ordered_consumer().consume(options=QUICK, on_warning=warnings.append) as messages:
            receive = messages._inbox._receive

            def lossy(number: int, message: Msg) -> None:
                nonlocal arrived, dropped
                arrived += number == 0
                if number == 0 and arrived % 20 == 5:
                    dropped += 1
                else:
                    receive(number, message)

            messages._inbox._receive = lossy
            async for message in messages:
                seen.append(int(message.data))
                if len(seen) == 200:
                    break
        assert seen == list(range(200))
        assert dropped >= 5
        assert ErrorKind.SEQUENCE_GAP in {warning.kind for warning in warnings}

    run(test)


def test_the_last_message_lost_is_noticed_by_heartbeat(run: Run) -> None:
    """With nothing behind it, a lost message is found missing by the next heartbeat."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 1)
        warnings: list[JetStreamError] = []
        async with stream.ordered_consumer().consume(options=QUICK, on_warning=warnings.append) as messages:
            assert (await anext(messages)).data == b"0"
            receive = messages._inbox._receive
            messages._inbox._receive = lambda number, message: receive(number, message) if number else None
            await publish(client, 1, 2)
            await asyncio.sleep(0.05)
            messages._inbox._receive = receive
            assert (await anext(messages)).data == b"1"
        assert [warning.kind for warning in warnings] == [ErrorKind.SEQUENCE_GAP]

    run(test)


def test_a_server_restart_is_survived(run: Run, server: Server) -> None:
    """The server's consumer is in memory and gone after a restart: the reader goes on with the next message."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 60, storage=StorageType.FILE)
        seen = []
        async with stream.ordered_consumer().consume(options=QUICK, on_warning=lambda _: None) as messages:
            async for message in messages:
                seen.append(int(message.data))
                if len(seen) in {20, 60}:
                    await asyncio.to_thread(server.restart)
                    await until(lambda: client.is_connected)
                    if len(seen) == 60:
                        await publish(client, 60, 65)
                if len(seen) == 65:
                    break
        assert seen == list(range(65))

    run(test)


def test_a_deleted_stream_ends_reading(run: Run) -> None:
    """Without the stream there is nothing to recover: the error is raised, at the start and later."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 3)
        ordered = stream.ordered_consumer()
        seen = 0

        async def read() -> None:
            nonlocal seen
            async with ordered.consume(options=QUICK, on_warning=lambda _: None) as messages:
                async for _ in messages:
                    seen += 1
                    if seen == 3:
                        await js.delete_stream("WORK")

        with pytest.raises(StreamNotFound):
            await read()
        assert seen == 3
        with pytest.raises(StreamNotFound):
            await ordered.fetch(1)
        assert client._subs.keys() == {1}

    run(test)
