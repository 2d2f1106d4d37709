"""Branches, rewinds and undeletes: the past is read in threads, then made into rows of the gathering group.

A branch is made out of sight, as a restore is, and shown when all its rows are durable; of a large one the settle job
copies the files (:mod:`api.gateway.branch_carry`). A rewind and an undelete are
decided at one moment and committed as one group. Each is planned by what was live when its messages were read; where
messages from before the point have left the stream since then, a rewind is planned anew, so that none comes back that
was erased meanwhile.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar, assert_never

import numpy as np

from api.core.gateway_core import GatewayCore
from api.core.stream_restore import StreamRestore
from api.gateway.branch_carry import BranchCarry, NotCarried
from api.gateway.gateway_log import report
from api.gateway.stream_landing import StreamLanding
from api.jetstream import branch_api
from api.jetstream.archived_consumer import archived
from api.jetstream.branch_api import BranchWork, PastWork, RewindWork, UndeleteWork
from api.jetstream.stream_advisories import stream_action
from conf.clock import Clock
from conf.limits import (
    PAST_WORKS_MAX,
    RESTORE_GROUP_BYTES,
    RESTORE_GROUP_MESSAGES,
    REWIND_TRIES,
    REWRITTEN_BYTES_MAX,
    REWRITTEN_MESSAGES_MAX,
)
from delta_store.archive.archived import ArchivedConsumer
from delta_store.archive.bad_archive import BadArchive
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal, past_refused
from delta_store.config.stream_config import StreamConfig
from delta_store.index.segments import Ints
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.past_runs import PastMessages, PastRuns
from delta_store.reading.slice_plan import PastSlice
from delta_store.reading.state_at import inside_ranges
from delta_store.reading.state_at import merged as disjoint
from delta_store.streams import rewinds
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import NoSuchCut, NoSuchStream, PastHorizon, ReadError
from delta_store.values.stream_message import MessageRun, merged
from ingest.protocol.leaf_protocol import encode_message

_CHANGES: Final = "messages from before the point leave the stream faster than it can be planned: try again"
_EVERYTHING: Final = MessageBounds()
Read = TypeVar("Read")


class _ReadPast(NamedTuple):
    """A stream, what was live of it at one moment, and its past, read later."""

    state: StreamState
    live: Ints
    past: PastMessages


class PastDesk:
    """Carries out the work on streams' pasts; belongs to the gateway's event loop."""

    def __init__(
        self,
        core: GatewayCore,
        past: PastRuns,
        landing: StreamLanding,
        carry: BranchCarry,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when the gathering group, or the catalog, has changed."""
        self._core = core
        self._past = past
        self._carry = carry
        self._landing = landing
        self._clock = clock
        self._changed = changed
        self._at_a_time = asyncio.Semaphore(PAST_WORKS_MAX)

    async def carry_out(self, work: PastWork, answer_to: bytes) -> None:
        """Do the work and reply, also where it could not be done."""
        try:
            async with self._at_a_time:
                reply = await self._done(work)
        except ApiRefusal as refused:
            reply = branch_api.refused(work, refused)
        except NoSuchStream:
            reply = branch_api.refused(work, api_errors.STREAM_NOT_FOUND.error)
        except NoSuchCut as unknown:
            reply = branch_api.refused(work, api_errors.no_such_cut(unknown.cut))
        except PastHorizon as gone:
            reply = branch_api.refused(work, api_errors.past_horizon(str(gone)))
        except (BadArchive, ReadError) as error:
            report("the past can't be used", f"stream {work.stream}: {error}")
            reply = branch_api.refused(work, past_refused(str(error)))
        if answer_to:
            self._core.gathering.group.replies.append(encode_message(answer_to, reply))
        self._changed()

    async def _done(self, work: PastWork) -> bytes:
        match work:
            case BranchWork():
                return await self._branch(work)
            case RewindWork():
                return await self._rewind(work)
            case UndeleteWork():
                return await self._undelete(work)
        assert_never(work)

    # --- branches ---

    async def _branch(self, work: BranchWork) -> bytes:
        core, clock = self._core, self._clock
        plan = await self._plan(work)
        config = branch_api.branch_config(plan.config, work.name, work.config, domain=core.catalog.domain)
        try:
            stream = await self._made(work, plan, config, self._carry.base(plan, config))
        except NotCarried as why:
            report("a branch is copied message by message", f"stream {work.name}: {why}")
            stream = await self._made(work, await self._plan(work), config, None)
        if (told := stream_action(f"STREAM.CREATE.{work.name}".encode())) is not None:
            core.advise(told, clock.now_ns())
        return branch_api.branched(stream.state, work, now_ns=clock.now_ns())

    async def _made(
        self, work: BranchWork, plan: PastSlice, config: StreamConfig, base: BranchBase | None
    ) -> StreamRestore:
        """Return the branch, shown. Raises :class:`NotCarried` for a base that was not copied."""
        core, clock = self._core, self._clock
        core.catalog.require_change()
        stream = StreamRestore.begun(core.catalog, core.gathering, config, now_ns=clock.now_ns())
        try:
            self._begin(stream, plan, work)
            left = plan.slice.parts if base is None else await self._carry.carry(stream, base, plan, clock.now_ns())
            await self._fill(stream, await _read(partial(self._past.of, plan, left)))
            await self._landing.show(stream)
        except BaseException:
            await self._landing.drop(stream)
            raise
        return stream

    def _begin(self, stream: StreamRestore, plan: PastSlice, work: BranchWork) -> None:
        now_ns = self._clock.now_ns()
        stream.begin_at(plan.first_seq, plan.seq, now_ns)
        for name, config, progress in work.consumers:
            content = archived(config, progress, last_seq=plan.seq)
            stream.add(ArchivedConsumer(name, content), now_ns)

    async def _fill(self, stream: StreamRestore, past: PastMessages) -> None:
        clock, runs = self._clock, self._past.runs(past, past.seqs)
        while (run := await _read(partial(next, runs, None))) is not None:
            step = _at_a_time(run)
            for start in range(0, len(run), step):
                await self._landing.room()
                stream.store(run[start : start + step], clock.now_ns())
                self._changed()
                await asyncio.sleep(0)

    # --- rewinds and undeletes ---

    async def _rewind(self, work: RewindWork) -> bytes:
        core = self._core
        for _ in range(REWIND_TRIES):
            state, live, past = await self._then(work)
            up_to_seq = past.plan.seq
            live = live[: np.searchsorted(live, up_to_seq, side="right")]
            again = await self._again(state, live, past)
            state = self._state(work)
            if not np.array_equal(live, state.index.live.sequences(1, up_to_seq)):
                continue
            broken = rewinds.broken_by(self._delivered(state), up_to_seq=up_to_seq)
            if broken and not work.force:
                raise past_refused(
                    f"consumers have seen what came after sequence {up_to_seq}: {', '.join(broken)}; "
                    "rewind with force if that is as it should be"
                )
            _require_room(core.catalog, state, rewinds.growth(state.index, again, up_to_seq=up_to_seq))
            rows = core.gathering.group.rows
            done = rewinds.rewind(state, again, up_to_seq=up_to_seq, now_ns=self._clock.now_ns(), rows=rows)
            self._stored(state, again)
            return branch_api.rewound(work, done, broken=broken, last_seq=state.index.last_seq)
        raise past_refused(_CHANGES)

    async def _again(self, state: StreamState, live: Ints, past: PastMessages) -> MessageRun:
        """Return the messages that must be stored anew, in order. Raises ``ApiRefusal`` where they are too many."""
        gone = await _read(partial(rewinds.lost, past.seqs, live))
        if not len(gone):
            return MessageRun.of(())
        if state.config.max_msgs_per_subject <= 0:
            return await self._messages(past, past.seqs[past.seqs >= gone[0]])
        lost = await self._messages(past, gone)
        ends = zip(lost.subjects, lost.seqs, strict=True)
        behind = rewinds.followers(state.index, ends, up_to_seq=past.plan.seq)
        return merged([lost, await self._messages(past, behind)])

    async def _undelete(self, work: UndeleteWork) -> bytes:
        bounds = MessageBounds(filters=(work.subject,))
        if work.ranges:
            bounds = bounds.within(min(first for first, _ in work.ranges), max(last for _, last in work.ranges))
        _, live, past = await self._then(work, bounds)
        gone = await _read(partial(rewinds.lost, past.seqs, live))
        if work.ranges and len(gone):
            gone = gone[inside_ranges(gone, disjoint(work.ranges))]
        again = await self._messages(past, gone)
        state = self._state(work)
        _require_room(self._core.catalog, state, rewinds.growth(state.index, again, up_to_seq=state.index.last_seq))
        rows = self._core.gathering.group.rows
        rewinds.bring_back(state, again, now_ns=self._clock.now_ns(), rows=rows)
        self._stored(state, again)
        return branch_api.undeleted(work, restored=len(again), last_seq=state.index.last_seq)

    async def _messages(self, past: PastMessages, seqs: Ints) -> MessageRun:
        """Return messages of the past, as many as one commit may store. Raises ``ApiRefusal``."""
        if len(seqs) > REWRITTEN_MESSAGES_MAX:
            raise _too_much(f"{len(seqs)} messages")
        found, size = [], 0
        runs = self._past.runs(past, seqs)
        while (run := await _read(partial(next, runs, None))) is not None:
            found.append(run)
            size += sum(map(len, run.data)) + sum(map(len, filter(None, run.headers)))
            if size > REWRITTEN_BYTES_MAX:
                raise _too_much(f"more than {REWRITTEN_BYTES_MAX} bytes")
        return merged(found) if found else MessageRun.of(())

    async def _then(self, work: PastWork, bounds: MessageBounds = _EVERYTHING) -> _ReadPast:
        """Read how the stream stood, knowing of all that was decided before what is live was noted.

        So a message that is in the past and not noted as live was not erased, and can't be any more. Messages that are
        still live were live at the point: where it had no more, they are its messages and none is read. Raises
        ``ApiRefusal`` where the stream is gone, and as :meth:`PastRuns.at`.
        """
        index = self._state(work).index
        live = index.live.sequences(1, index.last_seq)
        plan = await self._plan(work, bounds)
        still = live[: np.searchsorted(live, plan.seq, side="right")]
        if bounds == _EVERYTHING and await _read(partial(self._past.has_only, plan, still)):
            past = PastMessages(plan, still)
        else:
            past = await _read(partial(self._past.of, plan, plan.slice.parts))
        return _ReadPast(self._state(work), live, past)

    async def _plan(self, work: PastWork, bounds: MessageBounds = _EVERYTHING) -> PastSlice:
        """Return how the stream stood, by all that was decided so far. Raises as :meth:`_then`."""
        await self._landing.durable()
        plan = await _read(partial(self._past.plan, work.stream, work.point, bounds))
        if plan.slice.stream_id != work.stream_id:
            raise api_errors.STREAM_NOT_FOUND.error
        return plan

    def _state(self, work: PastWork) -> StreamState:
        """Return the stream that the work was asked for. Raises ``ApiRefusal`` where it is gone."""
        state = self._core.catalog.streams.get(work.stream)
        if state is None or state.stream_id != work.stream_id:
            raise api_errors.STREAM_NOT_FOUND.error
        return state

    def _delivered(self, state: StreamState) -> list[tuple[str, int]]:
        home = self._core.consumers.registry.directory.home_of(state)
        return [(name, one.delivered[1]) for name, one in home.by_name.items() if one.past is None]

    def _stored(self, state: StreamState, again: MessageRun) -> None:
        core = self._core
        core.gathering.group.bytes += sum(map(len, again.data)) + sum(map(len, filter(None, again.headers)))
        core.catalog.tidy(state)
        core.stored()


def _require_room(catalog: Catalog, state: StreamState, growth: int) -> None:
    """Raise ``ApiRefusal`` where nothing can be committed, or the account has no room for so many more bytes."""
    catalog.require_change()
    if growth > 0 and not catalog.account.has_room(state.config.storage, growth):
        raise api_errors.ACCOUNT_EXCEEDED.error


async def _read(read: Callable[[], Read]) -> Read:
    return await asyncio.to_thread(read)


def _at_a_time(run: MessageRun) -> int:
    """Return how many of the messages make a group."""
    size = sum(map(len, run.data))
    return max(1, min(RESTORE_GROUP_MESSAGES, RESTORE_GROUP_BYTES * len(run) // max(1, size)))


def _too_much(what: str) -> ApiRefusal:
    return past_refused(f"{what} would have to be stored again, more than one commit takes: make a branch instead")
