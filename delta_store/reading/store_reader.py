"""The one way to stored messages: from memory, else by a reading thread from the tables; then, are they still live.

Who plans on the event loop and may not wait asks :attr:`StoreReader.payloads` for what is in memory. What a read came
to is a type: messages, what is gone left out; else ``TooMany``, ``PastHorizon``, ``NoSuchStream`` or ``DamagedData``.
"""

from bisect import bisect_left
from collections.abc import Container
from functools import partial
from typing import NamedTuple, Protocol

from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PastState, PointInTime
from delta_store.reading.read_plan import PastPlan, ReadPlan
from delta_store.reading.read_threads import ReadThreads
from delta_store.streams.catalog import Catalog
from delta_store.values.read_errors import DamagedData
from delta_store.values.stream_message import MessageRun, StreamMessage


class ReadableStore(Protocol):
    """What is read; the catalog may be replaced as a whole."""

    @property
    def catalog(self) -> Catalog:
        """The live streams."""

    @property
    def payloads(self) -> Payloads:
        """Their messages."""

    @property
    def past(self) -> PointInTime:
        """What they held before."""


class FoundRun(NamedTuple):
    """What a read came to: what it was to read before ``lost`` and is not here has left its stream."""

    run: MessageRun
    lost: int
    """The first message that is live and in no file, 0 when there is none; nothing behind it is given."""


class StoreReader:
    """Carries plans out; belongs to one event loop. Reads raise ``ReadError``, ``ReadsBusy`` and ``TimeoutError``."""

    def __init__(self, store: ReadableStore, threads: ReadThreads) -> None:
        self.store = store
        self._threads = threads
        self.payloads = store.payloads
        """Gives at once what is in memory."""

    async def read(self, plan: ReadPlan) -> list[StreamMessage]:
        """The messages in order; those that have left the stream meanwhile are left out.

        Raises ``DamagedData`` when one that is live is nowhere to be found: that must not look like "no message".
        """
        near = self.payloads.run_now(*plan)
        rest = plan._replace(seqs=plan.seqs[len(near) :])
        if not rest.seqs:
            return near
        found = await self._threads.run(partial(self.payloads.fetch, *rest))
        if lost := self._lost(rest, found):
            raise DamagedData(f"stream {plan.stream}", f"message {lost} is in no file")
        return near + [found[seq] for seq in rest.seqs if seq in found]

    async def read_run(self, plan: ReadPlan) -> FoundRun:
        """The messages as columns, from the tables: for long runs of which memory has nothing."""
        run = await self._threads.run(partial(self.payloads.fetch_run, *plan))
        lost = self._lost(plan, frozenset(run.seqs)) if len(run) < len(plan.seqs) else 0
        return FoundRun(run[: bisect_left(run.seqs, lost)] if lost else run, lost)

    async def read_past(self, plan: PastPlan) -> PastState:
        """What was there at the point."""
        stream, subjects, up_to_seq, up_to_ts_ns, limit = plan
        look = partial(self.store.past.multi_last, stream, subjects, up_to_seq=up_to_seq, up_to_ts_ns=up_to_ts_ns)
        return await self._threads.run(partial(look, limit=limit))

    def _lost(self, plan: ReadPlan, found: Container[int]) -> int:
        """The first message of the plan that was not found though it is live still; 0 when there is none."""
        state = self.store.catalog.streams.get(plan.stream)
        if state is None or state.stream_id != plan.stream_id:
            return 0
        return next((seq for seq in plan.seqs if seq not in found and state.index.live.sid_of(seq) >= 0), 0)
