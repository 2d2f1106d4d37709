"""Direct Get against real servers: batches, last messages of subjects at a point, pages, statuses."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.aio.client import Client

from consumers.client import (
    EndOfBatch,
    ErrorKind,
    JetStreamContext,
    JetStreamError,
    StorageType,
    Stream,
    StreamConfig,
    direct_get,
)
from tests.integration.consumers_client.traffic import publish, stream_of
from tests.waits import until

Run = Callable[[Callable[[JetStreamContext, Client], Awaitable[None]]], None]


async def _refused(call: Awaitable[Any]) -> ErrorKind:
    with pytest.raises(JetStreamError) as caught:
        await call
    return caught.value.kind


async def _holds(stream: Stream, messages: int) -> bool:
    return (await stream.info()).state.messages == messages


def test_a_batch_starts_where_it_is_told(run: Run) -> None:
    """By sequence, by time, by subject, by bytes; the end says what is left."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 12, size=100)
        batch = stream.get_batch(4)
        assert [message.seq async for message in batch] == [1, 2, 3, 4]
        assert batch.end == EndOfBatch(8, 4, None)
        assert [message.seq async for message in stream.get_batch(9, seq=10)] == [10, 11, 12]
        assert [message.seq async for message in stream.get_batch(2, seq=3, subject="work.0")] == [4, 7]
        sixth = await stream.get_msg(6)
        since = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=sixth.timestamp_ns // 1000)
        assert 6 in [message.seq async for message in stream.get_batch(6, start_time=since)]
        limited = stream.get_batch(10, max_bytes=150)
        assert [message.seq async for message in limited] == [1, 2]
        assert limited.end == EndOfBatch(10, 2, None)
        assert await _refused(stream.get_batch(5, seq=13).all()) == ErrorKind.NOTHING_FOUND
        await stream.delete_msg(2)
        message = (await stream.get_batch(2).all())[1]
        assert (message.seq, message.subject, int(message.data), message.headers) == (3, "work.2", 2, {})

    run(test)


def test_last_messages_are_of_one_point(run: Run) -> None:
    """Now, up to a sequence with it, up to a time without it, and so many of them."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 6)
        await asyncio.sleep(0.01)
        between = datetime.now(UTC)
        await asyncio.sleep(0.01)
        await publish(client, 6, 10)
        now = stream.get_last_msgs_for(["work.*"])
        assert [message.seq async for message in now] == [8, 9, 10]
        assert now.end == EndOfBatch(0, 10, 10)
        past = stream.get_last_msgs_for(["work.*", "work.1"], up_to_seq=5)
        assert [message.seq async for message in past] == [3, 4, 5]
        assert [message.seq async for message in stream.get_last_msgs_for(["work.>"], up_to_time=between)] == [4, 5, 6]
        few = stream.get_last_msgs_for(["work.>"], batch=2)
        assert [message.seq async for message in few] == [8, 9]
        assert few.end is not None
        assert few.end.num_pending == 1
        assert await _refused(stream.get_last_msgs_for(["none"]).all()) == ErrorKind.NOTHING_FOUND
        early = between - timedelta(days=1)
        assert await _refused(stream.get_last_msgs_for(["work.>"], up_to_time=early).all()) == ErrorKind.NOTHING_FOUND

    run(test)


def test_pages_make_one_batch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in many small pages, a batch and a view of subjects are complete and in order."""
    monkeypatch.setattr(direct_get, "PAGE_BYTES", 500)

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 60, size=100)
        assert [message.seq async for message in stream.get_batch(50)] == list(range(1, 51))
        assert [message.seq async for message in stream.get_batch(99, subject="work.1")] == list(range(2, 61, 3))
        many = await js.add_stream(
            StreamConfig(name="MANY", subjects=["many.*"], allow_direct=True, storage=StorageType.MEMORY)
        )
        for number in range(40):
            await client.publish(f"many.{number}", b"x" * 60)
        await client.flush()
        await until(lambda: _holds(many, 40))
        view = many.get_last_msgs_for(["many.>"])
        seen: list[int] = []
        async for message in view:
            if not seen:
                await client.publish("many.39", b"later than the view")
                await until(lambda: _holds(many, 41))
            seen.append(message.seq)
        assert seen == list(range(1, 41))
        assert view.end is not None
        assert view.end.up_to_seq == 40

    run(test)


def test_more_than_1024_subjects_are_refused(run: Run) -> None:
    """413 is an error of its own; as many as are allowed are read."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(
            StreamConfig(name="MANY", subjects=["many.>"], allow_direct=True, storage=StorageType.MEMORY)
        )
        for number in range(1025):
            await client.publish(f"many.{number // 1024}.{number}", b"")
        await client.flush()
        await until(lambda: _holds(stream, 1025))
        assert await _refused(stream.get_last_msgs_for(["many.>"]).all()) == ErrorKind.TOO_MANY_SUBJECTS
        assert len(await stream.get_last_msgs_for(["many.0.*"]).all()) == 1024

    run(test)


def test_a_stream_that_does_not_allow_it_says_so(run: Run) -> None:
    """Without allow_direct nobody answers, and that is told at once."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await js.add_stream(StreamConfig(name="CLOSED", subjects=["closed"]))
        assert await _refused(stream.get_msg(1, direct=True)) == ErrorKind.NO_RESPONDERS
        assert await _refused(stream.get_batch(1).all()) == ErrorKind.NO_RESPONDERS
        assert await _refused(stream.get_last_msgs_for(["closed"]).all()) == ErrorKind.NO_RESPONDERS

    run(test)


def test_a_batch_left_early_leaves_nothing_behind(run: Run) -> None:
    """Leaving the loop unsubscribes."""

    async def test(js: JetStreamContext, client: Client) -> None:
        stream = await stream_of(js, client, 5)
        async with stream.get_batch(5) as batch:
            async for _ in batch:
                break
        assert client._subs.keys() == {1}, "only the connection's own inbox is subscribed"

    run(test)
