"""What carrying out a read plan comes to: found in memory or in files, gone, lost, too many."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.reading.point_in_time import PastState
from delta_store.reading.read_plan import PagePlan, PastPlan, ReadPlan
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.store_reader import ReadableStore, StoreReader
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import DamagedData, TooMany
from delta_store.values.stream_message import MessageRun, StreamMessage

PLAN = ReadPlan("S", 7, (1, 2, 3, 4, 5))


def message(seq: int) -> StreamMessage:
    """A stored message."""
    return StreamMessage("s", seq, seq, None, b"x")


class Kept:
    """Payloads of which some are in memory and others in files."""

    def __init__(self, near: set[int], far: set[int]) -> None:
        self.near, self.far = near, far
        self.fetched: list[int] = []

    def run_now(self, _stream: str, _stream_id: int, seqs: Sequence[int]) -> list[StreamMessage]:
        """As many as memory holds without a gap."""
        stop = next((place for place, seq in enumerate(seqs) if seq not in self.near), len(seqs))
        return [message(seq) for seq in seqs[:stop]]

    def fetch(self, _stream: str, _stream_id: int, seqs: Sequence[int]) -> dict[int, StreamMessage]:
        """Those that files hold."""
        self.fetched += seqs
        return {seq: message(seq) for seq in seqs if seq in self.far}

    def fetch_run(self, stream: str, stream_id: int, seqs: Sequence[int]) -> MessageRun:
        """The same as columns."""
        return MessageRun.of(list(self.fetch(stream, stream_id, seqs).values()))


def carried_out(
    kept: Kept, read: Callable[[StoreReader], Coroutine[Any, Any, Any]], *, live: set[int], stream_id: int = 7
) -> Any:
    """What a reader gives over a stream whose live messages are these of the first five."""
    state = StreamState(StreamConfig(name="S"), stream_id=stream_id, created_ns=1)
    for seq in range(1, 6):
        state.index.append(seq, state.index.table.intern("s"), ts_ns=seq, size=1)
    for seq in {1, 2, 3, 4, 5} - live:
        state.index.remove(seq)

    def multi_last(stream: str, subjects: Sequence[str], *, limit: int, **at: int | None) -> PastState:
        if limit < 2:
            raise TooMany(limit)
        assert (stream, subjects, at) == ("S", ("s",), {"up_to_seq": 3, "up_to_ts_ns": None})
        return PastState(3, [message(3)])

    catalog, past = SimpleNamespace(streams={"S": state}), SimpleNamespace(multi_last=multi_last)
    store = cast(ReadableStore, SimpleNamespace(catalog=catalog, payloads=kept, past=past))

    async def run() -> Any:
        threads = ReadThreads(1, timeout_seconds=20)
        try:
            return await read(StoreReader(store, threads))
        finally:
            threads.close()

    return asyncio.run(run())


def test_memory_comes_first_and_what_is_gone_is_left_out() -> None:
    """Files are asked for what memory does not hold; a message that has left its stream is nobody's fault."""
    kept = Kept({1, 2, 4}, {4, 5})
    found = carried_out(kept, lambda reader: reader.read(PLAN), live={1, 2, 4, 5})
    assert ([one.seq for one in found], kept.fetched) == ([1, 2, 4, 5], [3, 4, 5])
    kept = Kept({1, 2, 3, 4, 5}, set())
    found = carried_out(kept, lambda reader: reader.read(PLAN), live={1})
    assert ([one.seq for one in found], kept.fetched) == ([1, 2, 3, 4, 5], [])


def test_a_live_message_in_no_file_is_damage() -> None:
    """It must not look like no message; of another incarnation of the stream nothing is live."""
    with pytest.raises(DamagedData, match="message 3 is in no file"):
        carried_out(Kept({1, 2}, {4, 5}), lambda reader: reader.read(PLAN), live={3, 4, 5})
    found = carried_out(Kept({1}, {4}), lambda reader: reader.read(PLAN), live={1, 2, 3, 4, 5}, stream_id=8)
    assert [one.seq for one in found] == [1, 4]


@pytest.mark.parametrize(
    ("live", "there", "run", "lost"),
    [
        ({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, [1, 2, 3, 4, 5], 0),
        ({1, 5}, {1, 5}, [1, 5], 0),
        ({1, 3, 5}, {1, 5}, [1], 3),
        ({1, 2}, {2, 3}, [], 1),
        (set(), set(), [], 0),
    ],
)
def test_a_run_ends_before_what_is_lost(live: set[int], there: set[int], run: list[int], lost: int) -> None:
    """What was found in front of a lost message is given, and which one that is; memory is not asked."""
    found = carried_out(Kept({1, 2, 3, 4, 5}, there), lambda reader: reader.read_run(PLAN), live=live)
    assert (list(found.run.seqs), found.lost) == (run, lost)


def test_the_past_has_its_own_outcomes() -> None:
    """A plan of the past reaches the tables' history with its point and its limit."""
    plan = PastPlan("S", ("s",), 3, None, 2)
    found = carried_out(Kept(set(), set()), lambda reader: reader.read_past(plan), live=set())
    assert (found.up_to_seq, [one.seq for one in found.messages]) == (3, [3])
    with pytest.raises(TooMany):
        carried_out(Kept(set(), set()), lambda reader: reader.read_past(plan._replace(limit=1)), live=set())


@pytest.mark.parametrize(("most", "step", "parts"), [(5, 2, [[1, 2], [3, 4], [5]]), (3, 3, [[1, 2, 3]]), (0, 2, [])])
def test_a_page_is_read_in_steps(most: int, step: int, parts: list[list[int]]) -> None:
    """Steps of the given size, within the page's number of messages."""
    steps = PagePlan("S", 7, [1, 2, 3, 4, 5], most, step).steps()
    assert [(one.stream, one.stream_id, one.seqs) for one in steps] == [("S", 7, part) for part in parts]
