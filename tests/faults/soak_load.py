"""Clients of every kind at once, on nats-py and HTTP: they keep on through every fault and remember what they saw."""

import asyncio
import json
import math
import random
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, KeyValueConfig, ObjectStoreConfig, StreamConfig

from tests.faults.readings import ReadFailed, Refused, by_direct_get
from tests.faults.reckoning import History, Sent, Stored, digest
from tests.faults.workers import Progress
from tests.wire import Wire, header_block

STREAM, PREFIX = "SOAK", "soak"
BUCKET, FILES = "SETTINGS", "FILES"
PULL, PUSH = ("pull-0", "pull-1"), "push"
TROUBLE = (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError, ReadFailed, EOFError)
"""What clients meet while something is down: they try again."""
_ACK_WAIT_SECONDS = 10.0
_SUBJECTS, _KEYS, _FILES = 40, 25, 8
_SETTLED_SECONDS = 10.0
"""Age after which an acknowledged message must be there for readers of the HTTP API too."""
_STALL_SECONDS = 5.0
_PENDING_MAX = 200
_ACK_SECONDS = 300.0
"""A power cut and a start on a busy machine may take minutes."""
_ON_ITS_WAY_SECONDS = 4.0
"""A message that its consumer wrongly takes for unacknowledged comes later, after the wait for its ack."""


async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """What ``work`` gives; ``TimeoutError`` also where nats-py swallows a cancellation."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        raise TimeoutError
    return task.result()


Job = Callable[[JetStreamContext], Awaitable[None]]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A client that comes back for ever."""

    async def quiet(_: Exception) -> None:
        return

    client = Client()
    await client.connect(
        url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, allow_reconnect=True, error_cb=quiet, ping_interval=5
    )
    try:
        yield client
    finally:
        with suppress(*TROUBLE):
            await within(5, client.close())


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Wire]:
    """One connection for one look; what fails in it is one :class:`ReadFailed`."""
    try:
        async with Wire.open(url, inbox="_INBOX.soak") as wire:
            yield wire
    except ExceptionGroup as group:
        if group.split(TROUBLE)[1] is not None:
            raise
        raise ReadFailed(str(group.exceptions[0])) from group


async def prepare(url: str) -> None:
    """Make the stream, its consumers, the bucket and the object store."""
    async with connected(url) as client:
        jetstream = client.jetstream(timeout=20)
        await jetstream.add_stream(
            StreamConfig(STREAM, subjects=[f"{PREFIX}.>"], allow_direct=True, duplicate_window=3600.0)
        )
        common = {"ack_policy": AckPolicy.EXPLICIT, "ack_wait": _ACK_WAIT_SECONDS, "max_ack_pending": 2_000}
        for name in PULL:
            await jetstream.add_consumer(STREAM, ConsumerConfig(durable_name=name, **common))
        pushed = ConsumerConfig(durable_name=PUSH, deliver_subject="deliver.soak", deliver_group="workers", **common)
        await jetstream.add_consumer(STREAM, pushed)
        await jetstream.create_key_value(KeyValueConfig(BUCKET, history=10))
        await jetstream.create_object_store(FILES, ObjectStoreConfig())


class Timed(Progress):
    """A consumer's progress where a message may have been on its way, over another connection, when its ack came."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._finished_at: dict[int, float] = {}

    def finish(self, seq: int) -> None:
        """A double ack was answered."""
        self.finished.add(seq)
        self._finished_at.setdefault(seq, time.monotonic())

    def came(self, seq: int) -> None:
        """A message was read: it is one too many when its double ack was answered some time ago."""
        self.handled[seq] += 1
        if time.monotonic() - self._finished_at.get(seq, math.inf) > _ON_ITS_WAY_SECONDS:
            self.again.append(seq)


class Load:
    """The clients' loops; :meth:`run` runs them until told to stop, and each notes what it saw."""

    def __init__(self, url: str, http_url: str, *, seed: int, pause: float) -> None:
        """``pause`` seconds lie between two messages of a publisher."""
        self.url, self.http_url = url, http_url
        self.history = History()
        self.progress = {name: Timed(name) for name in (*PULL, PUSH)}
        self.ordered: list[int] = []
        self.values: dict[str, list[tuple[int, bytes]]] = {}
        """What each key was set to, with the revision that was answered (0 for none)."""
        self.watched: dict[str, bytes] = {}
        self.files: dict[str, bytes | None] = {}
        """Digest of each object; None when the last put was not answered."""
        self.past: list[tuple[int, dict[str, int]]] = []
        """Points and what was the last sequence of each subject there."""
        self.counts = {"direct": 0, "rest": 0, "past": 0, "refused": 0}
        self.problems: list[str] = []
        self.publishing, self.published, self.consuming = asyncio.Event(), asyncio.Event(), asyncio.Event()
        """Set when nothing more is to be published, when nothing is on its way any more, and when consumers may end."""
        self._rng = random.Random(seed)
        self._pause = pause
        self._when: dict[int, float] = {}

    async def run(self) -> None:
        """All loops, until :attr:`publishing` and then :attr:`consuming` are set."""
        writers: list[Job] = [self._publish_one_by_one, self._publish_one_by_one, self._publish_many]
        writers += [self._set_keys, self._put_files, self._read]
        takers: list[Job] = [partial(self._pull, PULL[0]), partial(self._pull, PULL[1]), self._pushed, self._pushed]
        takers += [self._read_in_order, self._watch]
        async with asyncio.TaskGroup() as group:
            for job in takers:
                group.create_task(self._with_client(job))
            async with asyncio.TaskGroup() as writing:
                for job in writers:
                    writing.create_task(self._with_client(job))
            self.published.set()

    async def _with_client(self, job: Job) -> None:
        async with connected(self.url) as client:
            await job(client.jetstream(timeout=3, publish_async_max_pending=_PENDING_MAX))

    # --- publishers ---

    def _message(self) -> tuple[str, str, bytes]:
        key = f"{len(self.history.sent)}"
        subject = f"{PREFIX}.{self._rng.randrange(_SUBJECTS)}"
        payload = key.encode() + b" " + self._rng.randbytes(self._rng.randrange(1_500))
        self.history.sent[key] = Sent(subject, digest(payload), f"id-{key}")
        return key, subject, payload

    def _acked(self, key: str, seq: int) -> None:
        self.history.acked.append((key, seq))
        self._when[seq] = time.monotonic()

    async def _publish_one_by_one(self, jetstream: JetStreamContext) -> None:
        while not self.publishing.is_set():
            await self._until_acked(jetstream, *self._message())
            await asyncio.sleep(self._pause)

    async def _until_acked(self, jetstream: JetStreamContext, key: str, subject: str, payload: bytes) -> None:
        deadline = time.monotonic() + _ACK_SECONDS
        while time.monotonic() < deadline:
            with suppress(*TROUBLE):
                ack = await jetstream.publish(subject, payload, headers={"Nats-Msg-Id": f"id-{key}"}, timeout=3)
                self._acked(key, ack.seq)
                return
            await asyncio.sleep(0.1)
        self.problems.append(f"message {key} was never acknowledged")

    async def _publish_many(self, jetstream: JetStreamContext) -> None:
        while not self.publishing.is_set():
            messages = [self._message() for _ in range(50)]
            futures = []
            for key, subject, payload in messages:
                try:
                    headers = {"Nats-Msg-Id": f"id-{key}"}
                    ack = await within(3, jetstream.publish_async(subject, payload, headers=headers))
                    ack.add_done_callback(_retrieved)
                except TROUBLE:
                    ack = None
                futures.append(ack)
            if waited := [one for one in futures if one is not None]:
                await asyncio.wait(waited, timeout=3)
            for (key, subject, payload), future in zip(messages, futures, strict=True):
                if future is not None and future.done() and not future.cancelled() and not future.exception():
                    self._acked(key, future.result().seq)
                else:
                    await self._until_acked(jetstream, key, subject, payload)
            # What was lost on its way counts as pending for ever in nats-py: a new context begins with none.
            if jetstream.publish_async_pending() > _PENDING_MAX // 2:
                jetstream = jetstream._nc.jetstream(timeout=3, publish_async_max_pending=_PENDING_MAX)
            await asyncio.sleep(50 * self._pause)

    # --- consumers ---

    async def _pull(self, name: str, jetstream: JetStreamContext) -> None:
        bound = await self._persist(lambda: jetstream.pull_subscribe_bind(name, STREAM))
        while not self.consuming.is_set():
            messages: list[Msg] = []
            try:
                messages = await bound.fetch(100, timeout=1)
            except TROUBLE:
                await asyncio.sleep(0.05)
            for message in messages:
                self.progress[name].came(message.metadata.sequence.stream)
            await asyncio.gather(*(self._ack(message, self.progress[name]) for message in messages))

    async def _pushed(self, jetstream: JetStreamContext) -> None:
        async with asyncio.TaskGroup() as acks:

            async def take(message: Msg) -> None:
                if message.reply.startswith("$JS.ACK."):
                    self.progress[PUSH].came(message.metadata.sequence.stream)
                    acks.create_task(self._ack(message, self.progress[PUSH]))

            await self._persist(lambda: jetstream._nc.subscribe("deliver.soak", queue="workers", cb=take))
            await self.consuming.wait()

    @staticmethod
    async def _ack(message: Msg, progress: Timed) -> None:
        """Three of four by a double ack whose answer is waited for."""
        seq = message.metadata.sequence.stream
        with suppress(*TROUBLE):
            if seq % 4:
                await message.ack_sync(timeout=2)
                progress.finish(seq)
            else:
                await message.ack()

    async def _read_in_order(self, jetstream: JetStreamContext) -> None:
        """An ordered consumer; nats-py's own does not notice that its server was away, so that a new one goes on."""
        while not self.consuming.is_set():
            count, moved = len(self.ordered), time.monotonic()
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=count + 1)
            with suppress(*TROUBLE):
                own = await jetstream.subscribe(
                    f"{PREFIX}.>", cb=self._in_order, ordered_consumer=True, config=config, idle_heartbeat=1.0
                )
                while not self.consuming.is_set() and time.monotonic() - moved < _STALL_SECONDS:
                    await asyncio.sleep(0.2)
                    if len(self.ordered) != count:
                        count, moved = len(self.ordered), time.monotonic()
                await own.unsubscribe()
            await asyncio.sleep(0.1)

    async def _in_order(self, message: Msg) -> None:
        seq = message.metadata.sequence.stream
        if seq == len(self.ordered) + 1:
            self.ordered.append(seq)
        elif seq > len(self.ordered) + 1:
            self.problems.append(f"ordered: {seq} came behind {len(self.ordered)}")

    # --- buckets ---

    async def _set_keys(self, jetstream: JetStreamContext) -> None:
        bucket = await self._persist(lambda: jetstream.key_value(BUCKET))
        number = 0
        while not self.publishing.is_set():
            number += 1
            key, value = f"key-{self._rng.randrange(_KEYS)}", b"%d" % number
            tried = self.values.setdefault(key, [])
            tried.append((0, value))
            with suppress(*TROUBLE):
                tried[-1] = (await bucket.put(key, value), value)
                if number % 10 == 0:
                    seen = await bucket.get(key)
                    if seen.value != value:
                        self.problems.append(f"{key} is {seen.value!r} right after it was set to {value!r}")
            await asyncio.sleep(5 * self._pause)

    async def _watch(self, jetstream: JetStreamContext) -> None:
        while not self.consuming.is_set():
            with suppress(*TROUBLE):
                bucket = await jetstream.key_value(BUCKET)
                watcher = await bucket.watchall()
                quiet = time.monotonic()
                while not self.consuming.is_set() and time.monotonic() - quiet < _STALL_SECONDS:
                    with suppress(*TROUBLE):
                        entry = await watcher.updates(timeout=0.5)
                        quiet = time.monotonic()
                        if entry is not None:
                            self.watched[entry.key] = entry.value or b""
                await watcher.stop()
            await asyncio.sleep(0.1)

    async def _put_files(self, jetstream: JetStreamContext) -> None:
        store = await self._persist(lambda: jetstream.object_store(FILES))
        while not self.publishing.is_set():
            name, data = f"file-{self._rng.randrange(_FILES)}", self._rng.randbytes(self._rng.randrange(1, 400_000))
            self.files[name] = None
            with suppress(*TROUBLE):
                await within(20, store.put(name, data))
                self.files[name] = digest(data)
                if digest((await within(20, store.get(name))).data or b"") != self.files[name]:
                    self.problems.append(f"{name} is not what was put")
            await asyncio.sleep(40 * self._pause)

    # --- readers ---

    async def _read(self, _: JetStreamContext) -> None:
        while not self.publishing.is_set():
            for look in (self._read_a_batch, self._read_the_past, self._read_by_http):
                with suppress(*TROUBLE):
                    async with asyncio.timeout(15):
                        await look()
            await asyncio.sleep(0.5)

    async def _read_a_batch(self) -> None:
        acked = list(self.history.acked)
        if not acked:
            return
        first = self._rng.randrange(1, max(seq for _, seq in acked) + 1)
        async with reading(self.url) as wire:
            found = await by_direct_get(wire, STREAM, first=first, last=first + 200)
        for key, seq in acked:
            if first <= seq <= max(found, default=0) and found.get(seq) != Stored(*self.history.sent[key]):
                self.problems.append(f"Direct Get: {key} was acknowledged as {seq}, where {found.get(seq)} is")
        self.counts["direct"] += len(found)

    async def _read_the_past(self) -> None:
        if not self.history.acked:
            return
        last = max(seq for _, seq in self.history.acked)
        point = max(1, last - round(last * self._rng.random() ** 3))
        try:
            self.past.append((point, await past(self.url, point)))
            self.counts["past"] += 1
        except Refused:
            self.counts["refused"] += 1

    async def _read_by_http(self) -> None:
        old = time.monotonic() - _SETTLED_SECONDS
        known = [(key, seq) for key, seq in self.history.acked if self._when[seq] < old]
        if not known:
            return
        key, seq = self._rng.choice(known)
        status, body = await asyncio.to_thread(_http, f"{self.http_url}/v1/streams/{STREAM}/messages/{seq}")
        if status == 200:
            sent = self.history.sent[key]
            if (body["subject"], digest(b64decode(body["data"]))) != sent[:2]:
                self.problems.append(f"HTTP: {key} was acknowledged as {seq}, where {body['subject']} is")
            self.counts["rest"] += 1
        elif status == 404:
            self.problems.append(f"HTTP: {seq} is not there {_SETTLED_SECONDS:.0f} s after its acknowledgement")

    async def _persist(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """What ``make`` gives, asked for until it comes."""
        while True:
            with suppress(*TROUBLE):
                return await make()
            await asyncio.sleep(0.2)


def _retrieved(ack: "asyncio.Future[Any]") -> None:
    """What came too late for who waited for it is no news."""
    if not ack.cancelled():
        ack.exception()


async def past(url: str, point: int) -> dict[str, int]:
    """The last sequence of each subject right after ``point``, by Direct Get.

    Raises :class:`Refused`, or :class:`ReadFailed` for all else.
    """
    found: dict[str, int] = {}
    async with reading(url) as wire:
        body = json.dumps({"multi_last": [f"{PREFIX}.>"], "up_to_seq": point, "batch": 1000}).encode()
        inbox = wire.send(f"$JS.API.DIRECT.GET.{STREAM}", body, header=header_block(()))
        while (reply := await wire.receive(inbox, seconds=10)) is not None:
            if reply.status.startswith("204"):
                return found
            if reply.status.startswith("410"):
                raise Refused(f"{reply.status} to the past at {point}")
            if reply.status:
                break
            found[reply.get("Nats-Subject") or ""] = int(reply.get("Nats-Sequence") or 0)
    raise ReadFailed(f"no whole answer about {point}")


def _http(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, {}
