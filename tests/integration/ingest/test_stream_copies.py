"""Mirrors and sources over a real journal: what is copied, from memory and from files, across restarts."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from api.core.gateway_core import GatewayCore
from api.core.hub_view import HubView
from api.jetstream.api_call import NeedMessage
from conf.clock import SystemClock
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import StreamSource, SubjectMapping
from delta_store.index.matching import subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.settled import SettledTable
from delta_store.reading.store_reader import StoreReader
from delta_store.stores.stores_open import open_stores
from delta_store.streams.catalog import Catalog
from delta_store.values.records import Kind
from delta_store.values.stream_message import StreamMessage
from ingest.flow import stream_copies
from ingest.flow.group_commit import GroupCommitter
from ingest.flow.stream_copies import StreamCopies
from ingest.protocol.interest import InterestTable
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide
from tests.groups import live_rows, open_journal
from tests.tables import marks_of
from tests.waits import until

WAIT = 20.0


class NoAnswers:
    """Nobody reads here."""

    def direct(self, request: WireMessage) -> None:
        """No answer."""

    def stored(self, wanted: NeedMessage, reply: bytes) -> bytes:
        """Nor here."""
        return b""


class Store:
    """A gateway without links: it decides, commits, and copies."""

    def __init__(self, data: Path, *, tail_bytes: int = 1 << 20) -> None:
        self.clock = SystemClock()
        self.settled = SettledTable(str(data / "messages"))
        self.catalog = open_stores(self.settled, JournalTail(str(data / "journal"))).catalog
        self.journal = open_journal(data / "journal")
        tail = JournalTail(str(data / "journal"), owner=self.journal.reader)
        self.payloads = Payloads(self.settled, tail, tail_bytes=tail_bytes)
        self.past = PointInTime(self.settled, tail)
        self.threads = ReadThreads(2, timeout_seconds=WAIT)
        self.core = GatewayCore(
            self.catalog, NoAnswers(), HubView(InterestTable(), lambda: 1 << 20), new_id=lambda: "id"
        )
        self.consumers, self.gathering, self.marks = self.core.consumers, self.core.gathering, self.core.marks
        self.committer = GroupCommitter(self.gathering, self.journal, self)
        self.warnings: list[str] = []
        self.copies = StreamCopies(
            self.core,
            StoreReader(self, self.threads),
            clock=self.clock,
            changed=self.committer.changed,
            warn=self.warnings.append,
        )
        self.commits = 0
        self.consumers.registry.restore(now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.copies.restore()

    def hold(self, held: bool) -> None:
        """The disk is never full here."""

    def brake_seconds(self) -> float:
        """Settling is never behind here."""
        return 0.0

    def seal(self, group: Group) -> None:
        """What the gateway adds to a group that is about to be taken."""
        self.core.seal(group, self.clock.now_ns())

    def release(self, group: Group) -> None:
        """What the gateway does with a durable group, as far as copies go."""
        self.commits += bool(len(group.rows))
        self.payloads.stored(group.rows)
        self.core.released(group.rows.reached(), self.clock.now_ns())
        self.copies.released(group.rows.reached())

    def create(self, name: str, **config: object) -> None:
        """Create a stream."""
        made = StreamConfig(name=name, **config)
        self.catalog.create(made, now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.consumers.registry.sync_streams(self.clock.now_ns())
        self.copies.sync()
        self.committer.changed()

    def update(self, name: str, **config: object) -> None:
        """Change a stream."""
        made = StreamConfig(name=name, **config)
        self.catalog.update(made, now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.consumers.registry.sync_streams(self.clock.now_ns())
        self.copies.sync()
        self.committer.changed()

    def delete(self, name: str) -> None:
        """Delete a stream."""
        self.catalog.delete(name, now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.consumers.registry.sync_streams(self.clock.now_ns())
        self.copies.sync()
        self.committer.changed()

    def purge(self, name: str) -> None:
        """Purge a stream."""
        self.catalog.purge(name, now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.committer.changed()

    def remove(self, name: str, seq: int) -> None:
        """Delete one message."""
        self.catalog.remove(name, seq, now_ns=self.clock.now_ns(), rows=self.gathering.group.rows)
        self.committer.changed()

    def publish(self, *messages: tuple[str, bytes]) -> None:
        """Publish messages without headers."""
        run = [WireMessage(subject.encode(), b"", b"", data) for subject, data in messages]
        decide(self.catalog, run, self.clock.now_ns(), self.gathering.group)
        self.consumers.stored()
        self.committer.changed()

    def messages(self, name: str) -> list[StreamMessage]:
        """The live messages of a stream, from wherever they are."""
        state = self.catalog.streams[name]
        seqs = state.index.live.sequences(state.index.first_seq, state.index.last_seq).tolist()
        found = self.payloads.fetch(name, state.stream_id, seqs) if seqs else {}
        return [found[seq] for seq in seqs]

    def data(self, name: str) -> list[bytes]:
        """Their payloads."""
        return [message.data for message in self.messages(name)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something to become true."""
        await until(lambda: self.gathering.idle and holds())

    async def commit(self, times: int) -> None:
        """Wait for so many commits more, or until nothing is left to commit."""
        until, still = self.commits + times, 0
        while still < 200:
            if self.commits >= until:
                return
            still = still + 1 if self.gathering.idle else 0
            await asyncio.sleep(0.001)


def serve(data: Path, steps: Callable[[Store], object], *, tail_bytes: int = 1 << 20) -> Store:
    """Run a store until the steps are done, then drop it without any farewell."""

    async def run() -> Store:
        store = Store(data, tail_bytes=tail_bytes)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(store.committer.run()), tasks.create_task(store.copies.run())]
            try:
                await steps(store)
            finally:
                for task in running:
                    task.cancel()
                store.threads.close()
        return store

    return asyncio.run(run())


def numbered(first: int, count: int, subject: str = "o.{}") -> list[tuple[str, bytes]]:
    """Messages of three subjects."""
    return [(subject.format(number % 3), b"%d" % number) for number in range(first, first + count)]


def rebuilt(data: Path) -> Catalog:
    """The catalog as another process finds it."""
    return open_stores(SettledTable(str(data / "messages")), JournalTail(str(data / "journal"))).catalog


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_copies_hold_what_their_origin_held(tmp_path: Path, tail_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog and what follows it arrive, in steps, from files and from memory alike; a replay gives the same."""
    monkeypatch.setattr(stream_copies, "COPY_STEP_MESSAGES", 37)

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.publish(*numbered(0, 300))
        store.remove("O", 5)
        store.remove("O", 6)
        await store.until(lambda: True)
        store.create("M", mirror=StreamSource("O"))
        store.create("P", mirror=StreamSource("O", filter_subject="o.1", opt_start_seq=100))
        store.create(
            "S", subjects=("s",), sources=(StreamSource("O", subject_transforms=(SubjectMapping("o.2", "x"),)),)
        )
        store.publish(*numbered(300, 50))
        await store.until(lambda: store.catalog.streams["S"].index.msgs == len(range(2, 350, 3)) - 1)
        await store.until(lambda: store.catalog.streams["M"].index.last_seq == 350)
        await store.until(lambda: store.catalog.streams["P"].index.last_seq == 350)
        assert store.messages("M") == store.messages("O")
        part = [one for one in store.messages("O") if one.subject == "o.1" and one.seq >= 100]
        assert store.messages("P") == part
        twos = [one for one in store.messages("O") if one.subject == "o.2"]
        assert [(one.subject, one.data) for one in store.messages("S")] == [("x", one.data) for one in twos]
        assert [one.seq for one in store.messages("S")] == list(range(1, len(twos) + 1))
        assert store.commits > 300 // 37

    store = serve(tmp_path, steps, tail_bytes=tail_bytes)
    again = rebuilt(tmp_path)
    assert marks_of(again) == marks_of(store.catalog)
    for name, state in store.catalog.streams.items():
        assert again.streams[name].sources == state.sources
        assert subjects_matching(again.streams[name].index) == subjects_matching(state.index)
        assert again.streams[name].index.first_seq == state.index.first_seq


def test_copying_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at any commit, and with all copies purged, nothing is copied twice and nothing left out."""
    monkeypatch.setattr(stream_copies, "COPY_STEP_MESSAGES", 10)

    async def begin(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.publish(*numbered(0, 95))
        await store.until(lambda: True)
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O"),))
        await store.commit(1)

    async def a_little(store: Store) -> None:
        await store.commit(2)
        if store.catalog.streams["S"].index.last_seq >= 40 and store.catalog.streams["S"].index.msgs:
            store.purge("S")
            await store.until(lambda: True)

    async def to_the_end(store: Store) -> None:
        store.publish(*numbered(95, 5))
        await store.until(lambda: store.catalog.streams["S"].index.last_seq >= 100)
        await store.until(lambda: store.catalog.streams["M"].index.last_seq >= 100)
        await asyncio.sleep(0.05)
        assert store.messages("M") == store.messages("O")
        expected = [b"%d" % number for number in range(100)]
        found = store.data("S")
        assert found == expected[100 - len(found) :]
        assert store.catalog.streams["S"].index.last_seq == 100
        assert len(found) < 100

    serve(tmp_path, begin)
    for _ in range(6):
        serve(tmp_path, a_little, tail_bytes=0)
    serve(tmp_path, to_the_end)


def test_a_full_stream_makes_its_source_wait(tmp_path: Path) -> None:
    """With discard new, copying stops where there is no room and goes on when there is."""

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.create("S", sources=(StreamSource("O"),), discard="new", max_msgs=4)
        store.publish(*numbered(0, 9))
        await store.until(lambda: store.catalog.streams["S"].index.msgs == 4)
        assert store.data("S") == [b"0", b"1", b"2", b"3"]
        store.purge("S")
        await store.until(lambda: store.catalog.streams["S"].index.msgs == 4)
        assert store.data("S") == [b"4", b"5", b"6", b"7"]

    serve(tmp_path, steps)


def test_an_origin_that_comes_and_goes(tmp_path: Path) -> None:
    """An origin may come later; made anew, a source takes all of it and a mirror what lies behind its own last."""

    async def steps(store: Store) -> None:
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O"),))
        await store.until(lambda: True)
        store.create("O", subjects=("o.>",))
        store.publish(*numbered(0, 3))
        await store.until(lambda: len(store.data("M")) == len(store.data("S")) == 3)
        store.delete("O")
        store.create("O", subjects=("o.>",))
        store.publish(*numbered(10, 5))
        await store.until(lambda: len(store.data("S")) == 8)
        await store.until(lambda: len(store.data("M")) == 5)
        assert store.data("S") == [b"0", b"1", b"2", b"10", b"11", b"12", b"13", b"14"]
        assert store.data("M") == [b"0", b"1", b"2", b"13", b"14"]
        store.update("M", subjects=("m",))
        store.publish(("m", b"own"), ("o.1", b"not copied"))
        await store.until(lambda: len(store.data("S")) == 9)
        assert store.data("M")[-1] == b"own"

    serve(tmp_path, steps)


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_copied(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to the origin meanwhile, copies are ascending, unrepeated, and hold all that is live in it."""
    monkeypatch.setattr(stream_copies, "COPY_STEP_MESSAGES", 5)
    dice = random.Random(seed)

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",), max_msgs_per_subject=dice.choice([-1, 2]), allow_rollup_hdrs=True)
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O", filter_subject="o.*"),))
        store.create("C", sources=(StreamSource("S"),))
        number = 0
        for _ in range(60):
            chance = dice.random()
            if chance < 0.8:
                count = dice.randrange(1, 12)
                store.publish(*numbered(number, count))
                number += count
            elif chance < 0.9:
                index = store.catalog.streams["O"].index
                store.remove("O", dice.randrange(1, index.last_seq + 2))
            else:
                store.purge("O")
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        store.publish(("o.last", b"%d" % number))
        await store.until(lambda: store.data("S")[-1:] == [b"%d" % number] == store.data("C")[-1:])
        await store.until(lambda: store.data("M")[-1:] == [b"%d" % number])
        live = store.messages("O")
        for name in ("S", "C"):
            copied = [int(data) for data in store.data(name)]
            assert copied == sorted(set(copied))
            assert {int(one.data) for one in live} <= set(copied)
        assert set(live) <= set(store.messages("M"))

    store = serve(tmp_path, steps, tail_bytes=dice.choice([0, 1 << 20]))
    again = rebuilt(tmp_path)
    assert marks_of(again) == marks_of(store.catalog)
    assert {row.kind for _, rows in live_rows(store.journal.reader) for row in rows.rows()} >= {
        Kind.MESSAGE,
        Kind.SOURCE_STATE,
    }


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_copies_consume_their_origin(tmp_path: Path, retention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped after any commit: each message is in the origin until both copies hold it, and then it is gone."""
    monkeypatch.setattr(stream_copies, "COPY_STEP_MESSAGES", 10)

    async def begin(store: Store) -> None:
        store.create("O", subjects=("o.>",), retention=retention)
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O", filter_subject="o.1"),))
        store.publish(*numbered(0, 95))
        await store.commit(2)

    async def a_little(store: Store) -> None:
        left = set(store.data("O"))
        ones = {data for subject, data in numbered(0, 95) if subject == "o.1"}
        mirrored, sourced = set(store.data("M")), set(store.data("S"))
        assert left | mirrored == {data for _, data in numbered(0, 95)}
        assert (left & ones) | sourced == ones
        assert not left & mirrored - ones
        assert not left & mirrored & sourced
        await store.commit(1)

    async def to_the_end(store: Store) -> None:
        store.publish(*numbered(95, 5))
        await store.until(lambda: not store.catalog.streams["O"].index.msgs)
        assert store.data("M") == [data for _, data in numbered(0, 100)]
        assert store.data("S") == [data for subject, data in numbered(0, 100) if subject == "o.1"]
        store.delete("M")
        store.publish(*numbered(100, 3))
        await store.until(lambda: len(store.data("S")) == 34)
        await store.until(lambda: store.catalog.streams["O"].index.msgs == (0 if retention == "interest" else 2))

    serve(tmp_path, begin)
    for _ in range(5):
        serve(tmp_path, a_little, tail_bytes=0)
    store = serve(tmp_path, to_the_end)
    assert rebuilt(tmp_path).streams["O"].index.msgs == store.catalog.streams["O"].index.msgs


def test_an_empty_mirror_begins_where_its_origin_does(tmp_path: Path) -> None:
    """Also after a restart, and even if nothing has come by then."""

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.publish(*numbered(0, 6))
        store.purge("O")
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O"),))
        await store.until(lambda: store.catalog.streams["M"].index.first_seq == 7)
        assert not store.catalog.streams["S"].index.first_seq

    async def later(store: Store) -> None:
        store.publish(("o.1", b"one more"))
        await store.until(lambda: store.data("M") == [b"one more"] == store.data("S"))
        assert store.messages("M") == store.messages("O")

    serve(tmp_path, steps)
    index = rebuilt(tmp_path).streams["M"].index
    assert (index.first_seq, index.last_seq, index.msgs) == (7, 6, 0)
    serve(tmp_path, later)


def test_what_waits_for_a_copy_goes_with_it(tmp_path: Path) -> None:
    """Messages of an interest stream that only a copy without room wanted leave when that is deleted."""

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",), retention="interest")
        store.create("S", sources=(StreamSource("O"),), discard="new", max_msgs=2)
        store.publish(*numbered(0, 6))
        await store.until(lambda: store.data("O") == [b"2", b"3", b"4", b"5"])
        store.delete("S")
        await store.until(lambda: not store.catalog.streams["O"].index.msgs)

    serve(tmp_path, steps)


def test_a_copy_that_waits_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that does not fit is named, however often it is tried; when it is out of the way all goes on."""
    monkeypatch.setattr(stream_copies, "COPY_RETRY_SECONDS", 0.01)

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.create("S", sources=(StreamSource("O"),), max_msg_size=200)
        store.publish(("o.1", b"fits"), ("o.1", b"x" * 300), ("o.1", b"fits again"))
        await store.until(lambda: bool(store.warnings))
        await asyncio.sleep(0.1)
        assert store.warnings == ["stream S waits for its copy of O: its next message, 2, is refused"]
        store.remove("O", 2)
        await store.until(lambda: store.data("S") == [b"fits", b"fits again"])
        assert len(store.warnings) == 1

    serve(tmp_path, steps)


def test_a_sealed_stream_takes_no_copies(tmp_path: Path) -> None:
    """What its origin gets later stays out of it."""

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.create("S", sources=(StreamSource("O"),))
        store.publish(*numbered(0, 3))
        await store.until(lambda: len(store.data("S")) == 3)
        store.update("S", sources=(StreamSource("O"),), sealed=True)
        store.publish(*numbered(3, 3))
        await store.until(lambda: bool(store.warnings))
        assert store.data("S") == [b"0", b"1", b"2"]

    serve(tmp_path, steps)


@pytest.mark.parametrize("seed", range(3))
def test_origins_that_go_while_they_are_copied(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted, made anew and purged while steps are on their way: a source takes no message twice or out of order."""
    monkeypatch.setattr(stream_copies, "COPY_STEP_MESSAGES", 5)
    dice = random.Random(seed)

    async def steps(store: Store) -> None:
        store.create("O", subjects=("o.>",))
        store.create("M", mirror=StreamSource("O"))
        store.create("S", sources=(StreamSource("O"),))
        number = 0
        for _ in range(60):
            chance = dice.random()
            if chance < 0.1:
                store.delete("O")
                store.create("O", subjects=("o.>",))
            elif chance < 0.2:
                store.purge("O")
            else:
                count = dice.randrange(1, 20)
                store.publish(*numbered(number, count))
                number += count
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
        store.publish(("o.last", b"%d" % number))
        await store.until(lambda: store.data("S")[-1:] == [b"%d" % number])
        copied = [int(data) for data in store.data("S")]
        assert copied == sorted(set(copied))
        assert {int(one.data) for one in store.messages("O")} <= set(copied)
        mirrored = [int(data) for data in store.data("M")]
        assert mirrored == sorted(set(mirrored))

    serve(tmp_path, steps, tail_bytes=dice.choice([0, 1 << 20]))
