"""nats-py's key-value buckets and object stores, unmodified: the same results from Silt as from nats-server."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext
from nats.js import errors as js_errors
from nats.js.api import ObjectMeta
from nats.js.kv import KeyValue

from tests.integration.clients.comparable import at_once

Steps = Callable[[JetStreamContext], Awaitable[list[Any]]]
LARGE = bytes(range(256)) * 4 * 1024 * 16


async def outcome(call: Awaitable[Any]) -> Any:
    """What a call gives, or the error that it raises, as something to compare."""
    try:
        return shown(await call)
    except js_errors.Error as error:
        return type(error).__name__, getattr(error, "err_code", None), getattr(error, "code", None)


def shown(value: Any) -> Any:
    """A result without times and ids."""
    if isinstance(value, KeyValue.Entry):
        return value.bucket, value.key, value.value, value.revision, value.delta, value.operation
    if isinstance(value, list):
        return [shown(one) for one in value]
    return value


async def watched(watcher: Any, number: int) -> list[Any]:
    """The next updates of a watcher; None says that all that was there has come."""
    found = []
    async with asyncio.timeout(10):
        for _ in range(number):
            update = await watcher.updates(timeout=5)
            found.append(None if update is None else (update.key, update.value, update.revision, update.operation))
    await watcher.stop()
    return found


async def values(js: JetStreamContext) -> list[Any]:
    """Put, get, create, update, delete, purge, history, keys, status."""
    kv = await js.create_key_value(bucket="PY", history=3, direct=True)
    found = [await outcome(kv.put("a", b"1")), await outcome(kv.put("a", b"2")), await outcome(kv.put("b.c", b"x"))]
    found += [await outcome(kv.get("a")), await outcome(kv.get("a", revision=1)), await outcome(kv.get("none"))]
    found += [await outcome(kv.create("a", b"no")), await outcome(kv.create("new", b"yes"))]
    found += [await outcome(kv.update("a", b"3", last=2)), await outcome(kv.update("a", b"4", last=2))]
    found += [await outcome(kv.keys()), await outcome(kv.keys(filters=["b.>"])), await outcome(kv.history("a"))]
    found += [await outcome(kv.delete("a")), await outcome(kv.get("a")), await outcome(kv.history("a"))]
    found += [await outcome(kv.create("a", b"again")), await outcome(kv.purge("a")), await outcome(kv.history("a"))]
    found += [await outcome(kv.keys()), await outcome(kv.purge_deletes(olderthan=-1)), await outcome(kv.history("b.c"))]
    status = await kv.status()
    found.append((status.bucket, status.values, status.history, status.ttl))
    found.append(await outcome(js.delete_key_value("PY")))
    found.append(await outcome(js.key_value("PY")))
    return found


async def watches(js: JetStreamContext) -> list[Any]:
    """Watchers with each of their options, before and after changes."""
    kv = await js.create_key_value(bucket="WATCHED", history=5)
    for key, value in (("x.1", b"1"), ("x.2", b"2"), ("x.1", b"3"), ("y", b"4")):
        await kv.put(key, value)
    await kv.delete("y")
    found = [
        await watched(await kv.watchall(), 4),
        await watched(await kv.watch("x.*"), 3),
        await watched(await kv.watch("x.1", include_history=True), 3),
        await watched(await kv.watchall(ignore_deletes=True), 3),
        await watched(await kv.watch("x.1", meta_only=True), 2),
    ]
    live = await kv.watch("z.>")
    found.append(shown_update(await live.updates(timeout=5)))
    await kv.put("z.1", b"new")
    await kv.put("other", b"no")
    await kv.delete("z.1")
    found += [shown_update(await live.updates(timeout=5)) for _ in range(2)]
    await live.stop()
    return found


def shown_update(update: Any) -> Any:
    """An update of a watcher as something to compare."""
    return None if update is None else (update.key, update.value, update.revision, update.operation)


async def objects(js: JetStreamContext) -> list[Any]:
    """Put, get, list, watch, meta data, deletion and sealing; 16 MiB come back as they went."""
    store = await js.create_object_store(bucket="FILES", description="files")
    small = await store.put("small", b"hello")
    large = await store.put("large", io.BytesIO(LARGE), meta=ObjectMeta(description="many chunks"))
    found: list[Any] = [(one.name, one.size, one.chunks, one.digest, one.description) for one in (small, large)]
    fetched = await store.get("large")
    found += [fetched.data == LARGE, (await store.get("small")).data, await outcome(store.get("none"))]
    found.append(sorted((one.name, one.size) for one in await store.list()))
    found.append(await outcome(store.update_meta("small", ObjectMeta(name="small", description="d"))))
    found.append((await store.get_info("small")).description)
    await store.delete("large")
    found.append(await outcome(store.get("large")))
    found.append(sorted(one.name for one in await store.list()))
    watcher = await store.watch()
    seen = []
    while (update := await watcher.updates(timeout=5)) is not None:
        seen.append((update.name, update.deleted))
    await watcher.stop()
    found.append(sorted(seen, key=str))
    await store.seal()
    status = await store.status()
    found += [(status.bucket, status.sealed, status.description), await outcome(store.put("late", b"x"))]
    found.append(await outcome(js.delete_object_store("FILES")))
    return found


@pytest.mark.parametrize("steps", [values, watches, objects])
def test_same_as_nats_server(pair: tuple[str, str], steps: Steps) -> None:
    """The same calls give the same values, revisions, updates and errors."""

    async def run(url: str) -> list[Any]:
        client = await nats.connect(url)
        try:
            async with asyncio.timeout(90):
                return await steps(client.jetstream())
        finally:
            await client.close()

    expected, actual = at_once(lambda url: asyncio.run(run(url)), pair)
    for number, (theirs, ours) in enumerate(zip(expected, actual, strict=True)):
        assert ours == theirs, f"result {number}"
