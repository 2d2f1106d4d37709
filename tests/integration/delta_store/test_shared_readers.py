"""Readers that gateway and HTTP processes share between threads, hammered: every answer is held against the rows."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest

from conf.clock import SystemClock
from delta_store.entries.settled_log import Snapshot
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.settled import SettledTable
from delta_store.stores.replica import Replica
from tests.groups import reader
from tests.tables import History, Tables

THREADS = 4
SETTLED, STORED = 3, 5
"""Messages of each stream that are settled at first, and all of them."""


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@dataclass(slots=True)
class Store:
    """Many streams, each with a subject of its own, the newest messages of each not settled."""

    tables: Tables
    streams: list[History]
    times: dict[tuple[str, int], int] = field(default_factory=dict)
    opened: SettledTable = field(init=False)
    """What is settled at first."""

    @classmethod
    def made(cls, folder: Path, streams: int) -> "Store":
        """With :data:`SETTLED` of :data:`STORED` messages settled, each by a commit of its own."""
        store = cls(Tables(folder), [History(stream=f"S{number:02}") for number in range(streams)])
        store.tables.commit([one.create() for one in store.streams])
        for number in range(1, STORED + 1):
            store.publish()
            if number <= SETTLED:
                store.tables.settle()
        store.opened = store.settled()
        return store

    def publish(self) -> None:
        """A message more in each stream, all in one commit."""
        rows = [one.publish(one.stream.lower()) for one in self.streams]
        self.times.update({(row.stream, row.seq): row.ts_ns for row in rows})
        self.tables.commit(rows)

    def settled(self) -> SettledTable:
        """A table that was just opened, with a cache that holds little."""
        table = SettledTable(str(self.tables.data / "messages"), cache_bytes=4096)
        table.refresh()
        return table

    def journal(self) -> JournalTail:
        """The journal, just opened."""
        return JournalTail(str(self.tables.data / "journal"), cache_bytes=4096)


def bodies(messages: Any) -> list[bytes]:
    """What they say."""
    return [one.data for one in messages]


def wanted(stream: History, *seqs: int) -> list[bytes]:
    """What they should say."""
    return [f"{stream.stream}/{seq}".encode() for seq in seqs]


def ask_snapshot(store: Store, stream: History, snapshot: Snapshot) -> None:
    """The files of one stream, all and those of one message."""
    files = snapshot.of_stream(stream.stream)
    assert {file.stream for file in files} == {stream.stream}
    assert len(files) == SETTLED + 1
    assert len(snapshot.holding(stream.stream, np.array([2], np.int64))) == 1
    del store


def ask_settled(store: Store, stream: History, table: SettledTable) -> None:
    """Messages as a dictionary and as columns, and which version settled them."""
    found = table.fetch(stream.stream, stream.stream_id, [1, 3, STORED])
    assert bodies(found[seq] for seq in (1, 3)) == wanted(stream, 1, 3)
    assert bodies(table.fetch_run(stream.stream, stream.stream_id, [1, 2, 3])) == wanted(stream, 1, 2, 3)
    version = table.append_version_for(stream.stream, stream.stream_id, 2)
    marks = [table.mark_at(one, stream.stream) for one in (version - 1, version)]
    assert [mark.seq for mark in marks if mark is not None] == [1, 2]
    assert table.log.at(version).watermarks[stream.stream].seq == 2
    del store


def ask_journal(store: Store, stream: History, journal: JournalTail) -> None:
    """The rows of one stream without payloads, its events, and messages."""
    pinned = journal.refresh()
    rows = journal.rows_of(pinned, stream.stream, above=store.tables.marks[stream.stream].position)
    assert sorted(rows["seq"].to_pylist()) == [*range(SETTLED + 1, STORED + 1)]
    assert sum(map(len, journal.events_of(pinned, stream.stream))) == 1
    found = journal.fetch(pinned, stream.stream, stream.stream_id, [2, STORED])
    assert bodies(found[seq] for seq in (2, STORED)) == wanted(stream, 2, STORED)


def ask_payloads(store: Store, stream: History, payloads: Payloads) -> None:
    """Messages over the border between the tables, read one after the other and at once."""
    for seq in range(1, STORED + 1):
        found = payloads.now(stream.stream, stream.stream_id, seq)
        found = found or payloads.fetch(stream.stream, stream.stream_id, [seq])[seq]
        assert [found.data] == wanted(stream, seq)
    seqs = [*range(1, STORED + 1)]
    assert bodies(payloads.fetch_run(stream.stream, stream.stream_id, seqs)) == wanted(stream, *seqs)
    assert bodies(payloads.fetch_run(stream.stream, stream.stream_id, [1, 2])) == wanted(stream, 1, 2)
    del store


def ask_past(store: Store, stream: History, past: PointInTime) -> None:
    """The newest message at sequences and at a time."""
    subject = [stream.stream.lower()]
    for seq in (2, STORED):
        assert bodies(past.multi_last(stream.stream, subject, up_to_seq=seq).messages) == wanted(stream, seq)
    before_ns = store.times[stream.stream, SETTLED]
    found = past.multi_last(stream.stream, ["*"], up_to_ts_ns=before_ns).messages
    assert bodies(found) == wanted(stream, SETTLED - 1)


def ask_now(store: Store, stream: History, past: PointInTime) -> None:
    """What is the newest message."""
    assert bodies(past.multi_last(stream.stream, [">"]).messages) == wanted(stream, STORED)
    del store


def fresh_snapshot(store: Store) -> Snapshot:
    """One that nobody has asked yet."""
    return replace(store.opened.snapshot)


def refreshed_payloads(store: Store) -> Payloads:
    """Over tables that were just opened, as a reader has them."""
    return Payloads(store.settled(), store.journal())


def own_payloads(store: Store) -> Payloads:
    """As the owner of the journal has them."""
    return Payloads(store.settled(), JournalTail(str(store.tables.data / "journal"), owner=store.tables.journal.reader))


def past_of(store: Store) -> PointInTime:
    """Over tables that were just opened."""
    return PointInTime(store.settled(), store.journal())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Sixty streams that nobody changes."""
    return Store.made(tmp_path_factory.mktemp("shared"), 60)


@pytest.mark.parametrize(
    ("opened", "ask", "rounds", "streams"),
    [
        (fresh_snapshot, ask_snapshot, 60, 30),
        (Store.settled, ask_settled, 2, 8),
        (Store.journal, ask_journal, 3, 8),
        (refreshed_payloads, ask_payloads, 2, 5),
        (own_payloads, ask_payloads, 2, 5),
        (past_of, ask_past, 2, 4),
        (past_of, ask_now, 2, 6),
    ],
    ids=["snapshot", "settled", "journal", "payloads", "own-payloads", "past", "now"],
)
def test_threads_share_what_was_just_opened(
    store: Store,
    opened: Callable[[Store], Any],
    ask: Callable[[Store, History, Any], None],
    rounds: int,
    streams: int,
) -> None:
    """Whoever asks first and whoever asks meanwhile get the true answer, for every stream."""
    with ThreadPoolExecutor(THREADS) as threads:
        for number in range(rounds):
            shared, start = opened(store), Barrier(THREADS, timeout=30)

            def walk(first: int, shared: Any = shared, start: Barrier = start, number: int = number) -> None:
                start.wait()
                for step in range(streams):
                    ask(store, store.streams[(17 * first + number + step) % len(store.streams)], shared)

            for done in [threads.submit(walk, first) for first in range(THREADS)]:
                done.result(timeout=60)


def test_threads_read_while_the_tables_move_on(tmp_path: Path) -> None:
    """Messages and past points stay what they are while rows are committed, settled, compacted and truncated."""
    store, over = Store.made(tmp_path, 4), Event()
    settled, journal, follower = store.settled(), store.journal(), reader(tmp_path / "journal")
    payloads, past = Payloads(settled, journal), PointInTime(settled, journal)

    def read(first: int) -> int:
        rounds = 0
        while not over.is_set() or not rounds:
            stream = store.streams[(first + rounds) % len(store.streams)]
            newest = past.multi_last(stream.stream, [">"])
            assert bodies(newest.messages) == wanted(stream, newest.up_to_seq)
            assert newest.up_to_seq >= STORED
            seqs = [*range(1, newest.up_to_seq + 1)]
            assert bodies(payloads.fetch_run(stream.stream, stream.stream_id, seqs)) == wanted(stream, *seqs)
            ask_past(store, stream, past)
            version = settled.append_version_for(stream.stream, stream.stream_id, 2)
            assert settled.log.entry(version).note is not None
            follower.refresh()
            assert all(settled.snapshot.of_stream(one.stream) for one in store.streams)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(THREADS) as threads:
        reading = [threads.submit(read, first) for first in range(THREADS)]
        try:
            for step in range(3):
                store.publish()
                store.tables.settle()
                if step % 2:
                    store.tables.compact()
                    store.tables.truncate()
        finally:
            over.set()
        assert all(done.result(timeout=60) for done in reading)


def test_a_replica_is_read_by_threads_while_it_follows(tmp_path: Path) -> None:
    """Each refresh shows all that was committed before it, to the loop and to the threads that read for it."""
    store = Store.made(tmp_path, 3)

    async def run() -> None:
        threads = ReadThreads(THREADS, timeout_seconds=30)
        replica = Replica(str(tmp_path), threads, clock=SystemClock(), cache_bytes=4096, tail_bytes=2048)
        try:
            await asyncio.gather(*(replica.refresh() for _ in range(3)))
            for last in range(STORED + 1, STORED + 4):
                await asyncio.to_thread(store.publish)
                settling = asyncio.create_task(asyncio.to_thread(store.tables.settle))
                await asyncio.gather(*(replica.refresh() for _ in range(3)))
                assert {state.index.last_seq for state in replica.catalog.streams.values()} == {last}
                reads = [_read_replica(replica, threads, store, stream, last) for stream in store.streams]
                await asyncio.gather(*reads, replica.refresh())
                await settling
                await asyncio.to_thread(store.tables.truncate)
        finally:
            threads.close()

    asyncio.run(run())


async def _read_replica(replica: Replica, threads: ReadThreads, store: Store, stream: History, last: int) -> None:
    seqs = [*range(1, last + 1)]
    payloads = replica.payloads
    found = await threads.run(partial(payloads.fetch, stream.stream, stream.stream_id, seqs))
    assert bodies(found[seq] for seq in seqs) == wanted(stream, *seqs)
    for seq in seqs:
        held = payloads.now(stream.stream, stream.stream_id, seq)
        assert held is None or [held.data] == wanted(stream, seq)
    await threads.run(partial(ask_past, store, stream, replica.past))
