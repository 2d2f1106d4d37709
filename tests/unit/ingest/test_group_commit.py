"""Nothing may leave before what it was computed from is durable, and everything leaves in order."""

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from delta_store.entries.log_entry import Marks
from delta_store.values.journal_errors import StorageFailed, StorageFull
from delta_store.values.records import Kind, Row, RowColumns
from ingest.flow.group_commit import GroupCommitter, Pace
from ingest.publishing.group import Gathering, Group
from tests.sim.virtual_loop import VirtualLoop


@dataclass
class Disk:
    """Takes commits as told; ``log`` has everything in the order in which it happened."""

    log: list[tuple[str, list[int] | list[bytes]]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    room: Callable[[], bool] = lambda: True
    brake: float = 0.0
    told: list[bool] = field(default_factory=list)
    """Whether decisions were held, each time that this was told."""

    @property
    def has_room(self) -> bool:
        """As told."""
        return self.room()

    def commit(self, rows: RowColumns, watermarks: Marks | None = None) -> int:
        """Note the sequences that became durable."""
        assert watermarks == {"S": {"seq": rows.seq[-1]}}
        self.before()
        self.log.append(("commit", list(rows.seq)))
        return len(self.log)

    def marks(self, rows: RowColumns) -> Marks:
        """The last sequence."""
        return {"S": {"seq": rows.seq[-1]}}

    def seal(self, group: Group) -> None:
        """Nothing sums a group up here."""

    def hold(self, held: bool) -> None:
        """Note it."""
        self.told.append(held)

    def brake_seconds(self) -> float:
        """As told."""
        return self.brake

    def release(self, group: Group) -> None:
        """Note the replies that left."""
        self.log.append(("release", list(group.replies)))


class Committer(GroupCommitter):
    """A committer on a disk, with the group that gathers for it."""

    def __init__(self, disk: Disk, executor: ThreadPoolExecutor | None, pace: Pace) -> None:
        self.gathering = Gathering()
        super().__init__(self.gathering, disk, disk, executor=executor, pace=pace)


def decide(committer: Committer, seq: int | None, reply: bytes) -> None:
    """What a publish (or, without a sequence, a read) adds to the group that gathers."""
    if seq is not None:
        committer.gathering.group.rows.append(Row("S", 1, seq, 0, Kind.MESSAGE, "s", seq, None, 1, 0, None, b"x", 0))
    committer.gathering.group.replies.append(reply)
    committer.changed()


def committer_of(disk: Disk, executor: ThreadPoolExecutor | None = None, pace: Pace | None = None) -> Committer:
    """A committer on this disk."""
    return Committer(disk, executor, pace or Pace())


async def running(committer: Committer, script: Callable[[], None]) -> None:
    """Run the committer, do what the script says, and drain."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(committer.run())
        await asyncio.sleep(0)
        script()
        await committer.drain(5)
        task.cancel()


def test_a_reply_leaves_behind_its_commit() -> None:
    """A lone publisher is committed at once and answered after it."""
    disk = Disk()
    committer = committer_of(disk)
    asyncio.run(running(committer, lambda: decide(committer, 1, b"ack 1")))
    assert disk.log == [("commit", [1]), ("release", [b"ack 1"])]


def test_a_read_of_durable_state_is_answered_on_the_spot() -> None:
    """With nothing pending a group without rows is released inside the call."""

    async def main() -> None:
        disk = Disk()
        committer = committer_of(disk)
        decide(committer, None, b"info")
        assert disk.log == [("release", [b"info"])]

    asyncio.run(main())


def test_a_read_behind_a_publish_waits_for_its_commit() -> None:
    """What was computed from a message that is not durable leaves with it."""
    disk = Disk()
    committer = committer_of(disk)

    def script() -> None:
        decide(committer, 1, b"ack 1")
        decide(committer, None, b"info that shows 1")
        assert disk.log == []

    asyncio.run(running(committer, script))
    assert disk.log == [("commit", [1]), ("release", [b"ack 1", b"info that shows 1"])]


def test_what_comes_during_a_commit_makes_the_next_group() -> None:
    """While one commit is on its way the next group gathers, and a read of it waits for both."""
    disk = Disk()
    started, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        assert go_on.wait(5)

    disk.before = slow

    async def main() -> None:
        with ThreadPoolExecutor(1) as threads:
            committer = committer_of(disk, threads)
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(committer.run())
                decide(committer, 1, b"ack 1")
                assert await asyncio.get_running_loop().run_in_executor(None, started.wait, 5)
                decide(committer, 2, b"ack 2")
                decide(committer, 3, b"ack 3")
                decide(committer, None, b"info")
                assert (committer.gathering.pending_rows, committer.gathering.idle) == (3, False)
                go_on.set()
                await committer.drain(5)
                task.cancel()

    asyncio.run(main())
    assert disk.log == [
        ("commit", [1]),
        ("release", [b"ack 1"]),
        ("commit", [2, 3]),
        ("release", [b"ack 2", b"ack 3", b"info"]),
    ]


def test_a_brake_holds_durable_replies_back_in_order() -> None:
    """What comes meanwhile makes one group, however much it is; nothing is lost and nothing overtakes."""
    disk = Disk(brake=0.05)
    committer = committer_of(disk)

    async def scene() -> float:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(committer.run())
            await asyncio.sleep(0)
            for seq in range(1, 5):
                decide(committer, seq, b"ack %d" % seq)
                await asyncio.sleep(0.01)
            assert ("commit", [1]) in disk.log
            assert not [one for one in disk.log if one[0] == "release"]
            await committer.drain(5)
            task.cancel()
        return asyncio.get_running_loop().time() - began

    with closing(VirtualLoop(random.Random(0))) as loop:
        assert loop.run_until_complete(scene()) >= 0.1
    assert [one for one in disk.log if one[0] == "release"] == [
        ("release", [b"ack 1"]),
        ("release", [b"ack 2", b"ack 3", b"ack 4"]),
    ]


def test_a_full_disk_holds_the_group_until_there_is_space() -> None:
    """Nothing is acknowledged meanwhile, the reason is told, and the same rows are committed later."""
    disk = Disk()
    seen: list[bool] = []

    def full_twice() -> None:
        seen.append(committer.gathering.blocked is not None)
        if len(seen) < 3:
            raise StorageFull("journal", "No space left on device")

    disk.before = full_twice
    committer = committer_of(disk)
    asyncio.run(running(committer, lambda: decide(committer, 1, b"ack 1")))
    assert disk.log == [("commit", [1]), ("release", [b"ack 1"])]
    assert seen == [False, True, True]
    assert committer.gathering.blocked is None


def test_without_room_reads_leave_at_once() -> None:
    """What has been decided is committed out of the reserve; from then on reads leave unsealed, until there is room."""
    disk = Disk()

    async def main() -> None:
        committer = committer_of(disk)
        room = asyncio.Event()
        disk.room, told = room.is_set, disk.told
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(committer.run())
            decide(committer, 1, b"ack 1")
            await committer.drain(5)
            assert (disk.log, told, committer.gathering.hidden) == (
                [("commit", [1]), ("release", [b"ack 1"])],
                [True],
                set(),
            )
            decide(committer, None, b"info")
            assert disk.log[2:] == [("release", [b"info"])]
            assert committer.gathering.blocked is not None
            room.set()
            async with asyncio.timeout(5):
                while committer.gathering.blocked is not None:  # noqa: ASYNC110  # the committer tells nobody else
                    await asyncio.sleep(0.01)
            assert told == [True, False]
            task.cancel()

    asyncio.run(main())


def test_a_disk_in_doubt_ends_the_gateway() -> None:
    """An error that is not retryable ends the run without a reply."""
    disk = Disk()

    def broken() -> None:
        raise StorageFailed("journal", "Input/output error")

    disk.before = broken
    committer = committer_of(disk)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(running(committer, lambda: decide(committer, 1, b"ack 1")))
    assert caught.group_contains(StorageFailed)
    assert disk.log == []


def test_the_interval_gathers_and_enough_ends_it() -> None:
    """Behind a first commit a group waits for the interval, unless it has enough rows; an hour is never waited."""
    disk = Disk()

    async def main() -> None:
        committer = committer_of(disk, pace=Pace(interval_seconds=3600, rows=3))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(committer.run())
            await asyncio.sleep(0)
            decide(committer, 1, b"ack 1")
            await committer.drain(5)
            decide(committer, 2, b"ack 2")
            decide(committer, 3, b"ack 3")
            await asyncio.sleep(0.05)
            assert committer.gathering.pending_rows == 2
            decide(committer, 4, b"ack 4")
            await committer.drain(5)
            task.cancel()

    asyncio.run(main())
    assert [seqs for what, seqs in disk.log if what == "commit"] == [[1], [2, 3, 4]]


def test_enough_bytes_end_the_interval() -> None:
    """Large messages do not pile up for the time of the interval."""
    disk = Disk()

    async def main() -> None:
        committer = committer_of(disk, pace=Pace(interval_seconds=3600, bytes=100))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(committer.run())
            await asyncio.sleep(0)
            for seq in (1, 2):
                committer.gathering.group.bytes = 100
                decide(committer, seq, b"ack")
                await asyncio.sleep(0.02)
            await committer.drain(5)
            task.cancel()

    asyncio.run(main())
    assert [seqs for what, seqs in disk.log if what == "commit"] == [[1], [2]]


def test_a_lone_publisher_does_not_wait_where_nothing_is_gained() -> None:
    """One row after another is committed at once; two together wait for the interval, and so does what follows them."""
    disk = Disk()

    async def main() -> None:
        committer = committer_of(disk, pace=Pace(interval_seconds=3600, lone_waits=False, rows=2))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(committer.run())
            await asyncio.sleep(0)
            for seq in (1, 2, 3):
                decide(committer, seq, b"ack")
                await committer.drain(5)
            decide(committer, 4, b"ack")
            decide(committer, 5, b"ack")
            await committer.drain(5)
            decide(committer, 6, b"ack")
            await asyncio.sleep(0.02)
            assert committer.gathering.pending_rows == 1
            decide(committer, 7, b"ack")
            await committer.drain(5)
            task.cancel()

    asyncio.run(main())
    assert [seqs for what, seqs in disk.log if what == "commit"] == [[1], [2], [3], [4, 5], [6, 7]]
