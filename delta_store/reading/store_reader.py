"""The one way to stored messages: from memory, else by a thread from the tables; then checked to be live still.

Code that plans on the event loop and may not wait uses :attr:`StoreReader.payloads` for messages in memory. A read
returns messages, without those removed meanwhile, or raises ``TooMany``, ``PastHorizon``, ``NoSuchStream`` or
``DamagedData``.
"""

from bisect import bisect_left
from collections.abc import Container, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from conf.clock import Clock, SystemClock
from delta_store.reading.lasts_together import lasts_together
from delta_store.reading.past_streams import PastStream, PastStreams
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PastState, Point, PointInTime
from delta_store.reading.read_plan import FoundLasts, PastPlan, ReadPlan, WantedLasts
from delta_store.reading.read_threads import ReadThreads
from delta_store.streams.catalog import Catalog
from delta_store.values.as_of import AsOf, moment, parse_as_of
from delta_store.values.read_errors import DamagedData
from delta_store.values.settling import Settling
from delta_store.values.stream_history import StreamHistory
from delta_store.values.stream_message import MessageRun, StreamMessage

_CLOCK: Final = SystemClock()


class ReadableStore(Protocol):
    """A store to read from; its catalog may be replaced as a whole."""

    @property
    def catalog(self) -> Catalog:
        """The live streams."""

    @property
    def payloads(self) -> Payloads:
        """Their payloads."""

    @property
    def past(self) -> PointInTime:
        """Their past."""


class FoundRun(NamedTuple):
    """The messages of a run; those of the plan before ``lost`` that are not here have left the stream."""

    run: MessageRun
    lost: int
    """The first message that is live and in no file, 0 when there is none; none behind it is returned."""


class StoreReader:
    """Carries out plans; belongs to one event loop. Reads raise ``ReadError``, ``ReadsBusy`` and ``TimeoutError``."""

    def __init__(self, store: ReadableStore, threads: ReadThreads, *, clock: Clock = _CLOCK) -> None:
        """``clock`` tells from when ages count back."""
        self.store = store
        self._threads, self._clock = threads, clock
        self.pasts = PastStreams(store.past)
        """The past states of streams, read by threads."""
        self.payloads = store.payloads
        """The messages in memory, without waiting."""

    async def read(self, plan: ReadPlan) -> list[StreamMessage]:
        """Return the messages in order, without those that have left the stream meanwhile.

        Raises ``DamagedData`` when one that is live is nowhere: that must not look like "no message".
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
        """Return the messages as columns, from the tables: for long runs that are not in memory."""
        run = await self._threads.run(partial(self.payloads.fetch_run, *plan))
        lost = self._lost(plan, frozenset(run.seqs)) if len(run) < len(plan.seqs) else 0
        return FoundRun(run[: bisect_left(run.seqs, lost)] if lost else run, lost)

    async def read_place(self, plan: ReadPlan, place: Point) -> MessageRun:
        """Return messages that were live at a place, in order, without those that have been erased since."""
        look = partial(self.pasts.messages_at, plan.stream, plan.stream_id, place, plan.seqs)
        return MessageRun.of(await self._threads.run(look))

    async def read_past(self, plan: PastPlan) -> PastState:
        """Return the state at the point."""
        stream, subjects, up_to_seq, up_to_ts_ns, limit = plan
        look = partial(self.store.past.multi_last, stream, subjects, up_to_seq=up_to_seq, up_to_ts_ns=up_to_ts_ns)
        return await self._threads.run(partial(look, limit=limit))

    async def past_stream(self, stream: str, point: str | None) -> PastStream:
        """Return a stream as it stood at a point, as users write it; None is now. Raises ``NotAPoint``."""
        return await self._threads.run(partial(self.pasts.at, stream, self._as_of(point)))

    async def versions(self, stream: str, point: str | None, *, before: int | None, most: int) -> list[Settling]:
        """Return what versions settled, see :meth:`PastStreams.versions`. Raises ``NotAPoint``."""
        look = partial(self.pasts.versions, stream, self._as_of(point), before=before, most=most)
        return await self._threads.run(look)

    async def lasts(self, wanted: WantedLasts, point: str | None) -> FoundLasts:
        """Return a page of last messages of several streams, see :func:`lasts_together`. Raises ``NotAPoint``."""
        return await self._threads.run(partial(lasts_together, self.store.past, wanted, self._as_of(point)))

    async def history(self, stream: str) -> StreamHistory:
        """Return how far back a stream can be read, see :meth:`PastStreams.history`."""
        return await self._threads.run(partial(self.pasts.history, stream))

    def _as_of(self, point: str | None) -> AsOf:
        return parse_as_of(point, now=moment(self._clock.now_ns()))

    async def read_then(self, past: PastStream, seqs: Sequence[int]) -> list[StreamMessage]:
        """Return messages that were live then, without those that have been erased since."""
        return await self._threads.run(partial(self.pasts.messages, past, seqs))

    def _lost(self, plan: ReadPlan, found: Container[int]) -> int:
        """Return the first message of the plan that is live and not in ``found``; 0 when there is none."""
        state = self.store.catalog.streams.get(plan.stream)
        if state is None or state.stream_id != plan.stream_id:
            return 0
        return next((seq for seq in plan.seqs if seq not in found and state.index.live.sid_of(seq) >= 0), 0)
