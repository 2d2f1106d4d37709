"""The messages of a backup, one by one, from nats-server and from Silt: chunks, acks, ends, advisories."""

import asyncio
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from delta_store.archive.entries import CONSUMER_PREFIX, STATE_NAME, ArchiveEntry
from delta_store.archive.entry_reader import EntryReader
from delta_store.archive.s2_frames import FrameReader
from tests.integration.clients.comparable import at_once
from tests.wire import SILENCE_SECONDS, Delivered, Wire

CHUNK = 4096
STALL_SECONDS = 9.0
_ACK = re.compile(r"\$JS\.SNAPSHOT\.ACK\.S\.\w+\.(\d+)\.(\d+)")


class Backup:
    """A backup as its receiver sees it."""

    def __init__(self, wire: Wire, *, acks: bool = True, stops_after: int = 0) -> None:
        self.wire = wire
        self.acks = acks
        self.messages: list[Delivered] = []
        self.advisories: list[dict[str, Any]] = []
        self.begun, self.done = asyncio.Event(), asyncio.Event()
        self.stops_after = stops_after
        self.sid = wire.listen("deliver.here", self._take)
        wire.listen("$JS.EVENT.ADVISORY.STREAM.*.S", self._hear)

    async def run(self, **request: Any) -> dict[str, Any]:
        """Ask for it, and wait for its end."""
        body = json.dumps({"deliver_subject": "deliver.here", **request}).encode()
        reply = await self.wire.ask("$JS.API.STREAM.SNAPSHOT.S", body)
        assert reply is not None
        async with asyncio.timeout(STALL_SECONDS * 2):
            await self.done.wait()
        # The last message may come behind the advisory.
        await asyncio.sleep(SILENCE_SECONDS)
        return dict(json.loads(reply.payload))

    def entries(self) -> list[ArchiveEntry]:
        """What is in it."""
        frames, entries, found = FrameReader(), EntryReader(lambda _: None), []
        for message in self.messages:
            for content in frames.feed(message.payload):
                found += entries.feed(content)
        assert entries.ended
        return found

    def _take(self, message: Delivered) -> None:
        self.messages.append(message)
        self.begun.set()
        if message.reply and self.acks:
            self.wire.publish(message.reply)
        if len(self.messages) == self.stops_after:
            self.wire.unlisten(self.sid)

    def _hear(self, message: Delivered) -> None:
        if ".SNAPSHOT_" in message.subject:
            self.advisories.append(json.loads(message.payload))
        if message.subject == "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S":
            self.done.set()


async def fill(wire: Wire, messages: int) -> None:
    """Make stream S with messages that do not shrink."""
    dice = random.Random(5)
    await wire.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
    for number in range(messages):
        assert await wire.ask(f"s.{number % 3}", dice.randbytes(1000), header=b"NATS/1.0\r\nA: b\r\n\r\n")
    await wire.ask("$JS.API.STREAM.MSG.DELETE.S", b'{"seq":2}')
    consumer = b'{"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}'
    await wire.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", consumer)


def both(pair: tuple[str, str], look: Callable[[Wire], Any]) -> list[Any]:
    """What a look at either server gives."""

    async def alone(url: str) -> Any:
        async with Wire.open(url) as wire:
            return await look(wire)

    return at_once(lambda url: asyncio.run(alone(url)), pair)


def shape(backup: Backup) -> list[tuple[str, str]]:
    """Each message but the last chunk: its kind and its status; full chunks are alike."""
    shown = []
    for number, message in enumerate(backup.messages, 1):
        found = _ACK.fullmatch(message.reply)
        if found is not None:
            assert (int(found[1]), int(found[2])) == (len(message.payload), number) == (CHUNK, number)
            continue
        assert not message.reply
        shown.append(("chunk" if message.payload else "end", message.status))
    return shown


def test_chunks_and_their_end(pair: tuple[str, str]) -> None:
    """Full chunks ask for acks and are numbered; the rest and the end do not; inside is the same."""

    async def look(wire: Wire) -> Any:
        await fill(wire, 40)
        backup = Backup(wire)
        reply = await backup.run(chunk_size=CHUNK)
        entries = [
            (one.name, one.seq, one.headers, one.payload)
            for one in backup.entries()
            if one.name != STATE_NAME and not one.name.startswith(CONSUMER_PREFIX)
        ]
        names = [one.name for one in backup.entries()][:2]
        return sorted(reply), shape(backup), names, entries, [list(one) for one in backup.advisories]

    reference, silt = both(pair, look)
    assert silt == reference
    assert silt[1] == [("chunk", ""), ("end", "204")]


def test_a_small_backup_ends_without_a_status(pair: tuple[str, str]) -> None:
    """What is smaller than one chunk is sent without asking for an ack."""

    async def look(wire: Wire) -> Any:
        await fill(wire, 2)
        backup = Backup(wire)
        await backup.run(no_consumers=True)
        return shape(backup), [one.name for one in backup.entries()]

    reference, silt = both(pair, look)
    assert silt == reference == ([("chunk", ""), ("end", "")], ["state.json", "s.0"])


def test_a_receiver_that_never_acks(pair: tuple[str, str]) -> None:
    """After a window of chunks nothing comes for five seconds, then the end says why."""

    async def look(wire: Wire) -> Any:
        await fill(wire, 40)
        backup = Backup(wire, acks=False)
        await backup.run(chunk_size=CHUNK, window_size=3 * CHUNK)
        return len(backup.messages), shape(backup), backup.advisories[-1]["error"]

    reference, silt = both(pair, look)
    assert silt == reference == (4, [("end", "408 No Flow Response")], "no flow response")


def test_a_receiver_that_goes_away(pair: tuple[str, str]) -> None:
    """Without interest the backup ends, which its advisory says."""

    async def look(wire: Wire) -> Any:
        await fill(wire, 40)
        backup = Backup(wire, stops_after=1)
        await backup.run(chunk_size=1024, window_size=1024)
        return backup.advisories[-1]["error"]

    reference, silt = both(pair, look)
    assert silt == reference
    assert silt in ("no interest", "no flow response")


@pytest.mark.parametrize("removed", ["purge", "limit"])
def test_a_backup_is_of_one_moment(pair: tuple[str, str], removed: str) -> None:
    """What leaves Silt's stream while a backup waits for its receiver is in the backup all the same."""

    async def look() -> None:
        async with Wire.open(pair[1]) as wire:
            await fill(wire, 40)
            backup = Backup(wire, acks=False)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(backup.run(chunk_size=CHUNK, window_size=CHUNK))
                await backup.begun.wait()
                if removed == "purge":
                    await wire.ask("$JS.API.STREAM.PURGE.S")
                else:
                    await wire.ask("$JS.API.STREAM.UPDATE.S", b'{"name":"S","subjects":["s.>"],"max_msgs":1}')
                backup.acks = True
                wire.publish(backup.messages[0].reply)
            assert [one.seq for one in backup.entries() if one.seq] == [1, *range(3, 41)]

    asyncio.run(look())
