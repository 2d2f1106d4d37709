"""Past states for consumers: read by threads, waited for by requests, and looked after while consumers read them.

Those of durable consumers are read again after a start, while the gateway serves. A state that the horizon passes ends
its consumers: a message of it may be gone at any time, and none is skipped in silence.
"""

import asyncio
from collections.abc import Callable

from api.core.gateway_core import GatewayCore
from api.gateway.gateway_log import report
from api.gateway.stream_landing import StreamLanding
from api.jetstream.api_call import AskedView, ViewWork
from conf.clock import Clock
from conf.limits import (
    CONSUMER_RETRY_SECONDS,
    CONSUMER_VIEW_LOOK_SECONDS,
    CONSUMER_VIEW_WAIT_SECONDS,
    CONSUMER_VIEWS_MAX,
    CONSUMER_VIEWS_MESSAGES_MAX,
    CONSUMER_VIEWS_READ_MAX,
)
from consumers.machine.past_view import PastPlace, PastView
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.index.stream_index import StreamIndex
from delta_store.reading.past_streams import PastStreams
from delta_store.reading.point_in_time import Point
from delta_store.values.as_of import AsOf
from delta_store.values.read_errors import NoSuchCut, NoSuchStream, PastHorizon, ReadError
from ingest.protocol.leaf_protocol import encode_message


class ViewDesk:
    """The past states of all consumers; belongs to the gateway's event loop."""

    def __init__(
        self,
        core: GatewayCore,
        pasts: PastStreams,
        landing: StreamLanding,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when the gathering group, or what consumers may deliver, has changed."""
        self._core = core
        self._views = core.consumers.registry.views
        self._pasts = pasts
        self._landing = landing
        self._clock = clock
        self._changed = changed
        self._at_a_time = asyncio.Semaphore(CONSUMER_VIEWS_READ_MAX)
        self._making = 0
        """Views that are read for requests."""
        self._opening: set[PastView] = set()
        self._news = asyncio.Event()
        """Set, and replaced, when a view was opened or lost."""

    async def carry_out(self, work: ViewWork, answer_to: bytes) -> None:
        """Read what a request waits for, handle it, and reply, also where it can't be read."""
        reply: bytes | ViewWork = work
        while isinstance(reply, ViewWork):
            try:
                reply = await self._handled(reply)
            except ApiRefusal as refused:
                reply = work.refused(refused)
            except NoSuchStream:
                reply = work.refused(api_errors.STREAM_NOT_FOUND.error)
            except NoSuchCut as unknown:
                reply = work.refused(api_errors.no_such_cut(unknown.cut))
            except PastHorizon as gone:
                reply = work.refused(api_errors.past_horizon(str(gone)))
            except ReadError as error:
                report("the past can't be read", f"stream {work.asked.stream}: {error}")
                reply = work.refused(api_errors.past_refused(str(error)))
        if answer_to:
            self._core.gathering.group.replies.append(encode_message(answer_to, reply))
        self._changed()

    async def run(self) -> None:
        """Read the views of restored consumers, and look after all of them, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for view in self._views.held():
                    if not view.is_open and view not in self._opening:
                        self._opening.add(view)
                        tasks.create_task(self._open(view))
                await asyncio.sleep(CONSUMER_VIEW_LOOK_SECONDS)
                await self._look()

    def lost(self, view: PastView, why: PastHorizon) -> None:
        """End the consumers of a view that is no longer kept; at a later look, where nothing can be committed now."""
        if self._core.catalog.held:
            return
        rows = self._core.gathering.group.rows
        ended = self._views.end(view, now_ns=self._clock.now_ns(), rows=rows)
        if ended:
            report("consumers of the past ended", f"{', '.join(ended)}: {why}")
        self._tell()

    async def _handled(self, work: ViewWork) -> bytes | ViewWork:
        """Return the reply to a request, or what it waits for next. Raises ``ApiRefusal`` and ``ReadError``."""
        asked = work.asked
        if asked.new is None:
            await self._all_open(asked)
            return self._again(work, None)
        view = await self._view(asked, asked.new)
        try:
            if not view.is_open:
                view.open(await self._within_bounds(view))
            return self._again(work, view)
        finally:
            if not self._views.readers(view):
                view.leave()

    def _again(self, work: ViewWork, view: PastView | None) -> bytes | ViewWork:
        return work.again(view, self._clock.now_ns(), self._core.gathering.group.rows)

    async def _view(self, asked: AskedView, point: AsOf) -> PastView:
        """Return a view of a point: an open one that consumers have, or a new one. Raises as :meth:`_handled`."""
        await self._landing.durable()
        found = await asyncio.to_thread(self._pasts.place, asked.stream, asked.stream_id, point)
        state = self._core.catalog.streams.get(asked.stream)
        if state is None or state.stream_id != asked.stream_id:
            raise api_errors.STREAM_NOT_FOUND.error
        view = self._views.at(state, PastPlace(found.seq, found.event_no))
        if self._views.readers(view):
            await self._all_open(asked)
        return view

    async def _within_bounds(self, view: PastView) -> StreamIndex:
        """Return the messages of a new view. Raises as :meth:`_handled`, also where memory holds enough of the past."""
        if len(self._views.held()) + self._making >= CONSUMER_VIEWS_MAX:
            raise api_errors.PAST_CONSUMERS_FULL.error
        self._making += 1
        try:
            index = await self._read(view)
        finally:
            self._making -= 1
        if sum(one.index.msgs for one in self._views.held()) + index.msgs > CONSUMER_VIEWS_MESSAGES_MAX:
            raise api_errors.PAST_CONSUMERS_FULL.error
        return index

    async def _open(self, view: PastView) -> None:
        """Read the view of restored consumers, however often it takes."""
        while not view.is_open and self._views.readers(view):
            try:
                index = await self._read(view)
            except PastHorizon as gone:
                self.lost(view, gone)
            except ReadError as error:
                report("delivery waits", f"stream {view.name} as of {view.place}: {error}")
            else:
                self._views.open(view, index, now_ns=self._clock.now_ns())
                break
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
        self._opening.discard(view)
        self._tell()
        self._changed()

    async def _read(self, view: PastView) -> StreamIndex:
        """Return the messages of a view, knowing of all that was decided before this. Raises as :meth:`_handled`."""
        async with self._at_a_time:
            await self._landing.durable()
            place = Point(view.place.seq, event_no=view.place.event_no)
            return (await asyncio.to_thread(self._pasts.state_at, view.name, view.stream_id, place)).index

    async def _look(self) -> None:
        """End the consumers of views that are no longer kept."""
        for view in self._views.held():
            place = Point(view.place.seq, event_no=view.place.event_no)
            try:
                await asyncio.to_thread(self._pasts.require_whole, view.name, view.stream_id, place)
            except PastHorizon as gone:
                self.lost(view, gone)
                self._changed()
            except ReadError:
                continue

    async def _all_open(self, asked: AskedView) -> None:
        """Wait until all past states of a stream are read that consumers have. Raises ``ApiRefusal``."""
        try:
            async with asyncio.timeout(CONSUMER_VIEW_WAIT_SECONDS):
                while any(not view.is_open for view in self._views.held() if view.stream_id == asked.stream_id):
                    await self._news.wait()
        except TimeoutError:
            raise api_errors.unavailable("the past state of a consumer is being read") from None

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
