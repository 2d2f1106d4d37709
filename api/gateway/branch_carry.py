"""A branch of a large stream: the settle job copies what is settled, file by file, out of sight of the messages.

The gateway names the files in a row of the branch, and goes on when that row is settled: then they are in ``messages``
as the branch's own, and its index is read from there as at a start. What the origin had not settled follows as rows.
The branch is shown once the journal relies on a version with the files: it could not settle them again.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from api.core.gateway_core import GatewayCore
from api.core.stream_restore import StreamRestore
from api.gateway.stream_landing import StreamLanding
from conf.limits import BRANCH_BASE_BYTES_MAX, BRANCH_CARRIED_MESSAGES_MIN, BRANCH_CARRY_SECONDS_MAX
from delta_store.config.stream_config import StreamConfig
from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.index.index_copy import IndexCopy
from delta_store.index.stream_index import StreamIndex
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.message_slice import SlicePart
from delta_store.reading.settled import SettledTable
from delta_store.reading.slice_plan import PastSlice
from delta_store.stores.stores_open import restore_stream
from delta_store.streams.stream_state import StreamState
from delta_store.typed.typing_keys import own_metadata
from delta_store.values.schemas import MESSAGES_FOLDER

_LOOK_SECONDS: Final = 0.05
Found = TypeVar("Found")


class SettleView(NamedTuple):
    """What the gateway knows of settling."""

    is_running: Callable[[], bool] = bool
    """Returns whether the settle job says so."""
    relied_on: Callable[[], int | None] = lambda: None
    """Returns the version of ``messages`` that the journal relies on: up to it nothing is settled again."""
    hasten: Callable[[], None] = lambda: None
    """Has the journal look at once for a version to rely on."""


class NotCarried(Exception):
    """The settle job did not copy the messages: they are read and stored one by one instead."""


class BranchCarry:
    """Has the settle job copy; belongs to the gateway's event loop."""

    def __init__(self, core: GatewayCore, landing: StreamLanding, settled: SettledTable, settling: SettleView) -> None:
        self._streams, self._landing, self._settled, self._settling = core.catalog.streams, landing, settled, settling

    def base(self, plan: PastSlice, config: StreamConfig) -> BranchBase | None:
        """Return what the settle job shall copy for a branch with this configuration; None where nothing.

        That is so for few messages, which are faster stored, and where each message has to be looked at.
        """
        base = BranchBase.of(plan.slice.parts, plan.first_seq)
        if base is None or not self._settling.is_running() or not _as_they_are(plan.config, config):
            return None
        few = base.last_seq - plan.first_seq < BRANCH_CARRIED_MESSAGES_MIN
        return None if few or len(json.dumps(base.as_json())) > BRANCH_BASE_BYTES_MAX else base

    async def carry(self, stream: StreamRestore, base: BranchBase, plan: PastSlice, now_ns: int) -> list[SlicePart]:
        """Fill the stream with the settled messages; return the parts of the plan that are left.

        Raises :class:`NotCarried`, after which the stream is to be dropped, ``ApiRefusal``, and ``ReadError``.
        """
        stream.rest_on(base, now_ns)
        await self._landing.durable()
        try:
            async with asyncio.timeout(BRANCH_CARRY_SECONDS_MAX):
                copy = await self._copied_index(base, stream.state)
                carried = await self._reached(lambda: self._carried(stream.state))
                self._settling.hasten()
                known = copy.index if copy is not None and self._is_same(copy, carried, base, stream.state) else None
                await asyncio.to_thread(self._restore, stream.state, carried, known)
                await self._reached(lambda: carried if (self._settling.relied_on() or -1) >= carried.version else None)
        except TimeoutError:
            raise NotCarried("the settle job takes too long") from None
        if not stream.state.index.msgs:
            raise NotCarried("files of its origin can't be read any more")
        return [part for part in plan.slice.parts if part.table != MESSAGES_FOLDER]

    async def _reached(self, look: Callable[[], Found | None]) -> Found:
        """Return what a look, in a thread, finds at last."""
        while (found := await asyncio.to_thread(look)) is None:
            if not self._settling.is_running():
                raise NotCarried("the settle job has stopped")
            await asyncio.sleep(_LOOK_SECONDS)
        return found

    def _carried(self, state: StreamState) -> Snapshot | None:
        """Return the version that has the settled messages; None where the row that names them is not settled."""
        snapshot = self._settled.refresh()
        mark = snapshot.watermarks.get(state.name)
        return snapshot if mark is not None and mark.position >= state.position else None

    async def _copied_index(self, base: BranchBase, state: StreamState) -> IndexCopy | None:
        """Return a copy of the origin's index up to the base's end, made while the settle job works."""
        origin = self._origin(base)
        if origin is None:
            return None
        copy = IndexCopy(origin.index, base.last_seq, StreamIndex(chained=state.index.live.chained))
        for _ in iter(copy.step, False):
            await asyncio.sleep(0)
        await asyncio.to_thread(copy.fill)
        return copy

    def _is_same(self, copy: IndexCopy, version: Snapshot, base: BranchBase, state: StreamState) -> bool:
        """Whether a copy of the origin's index has the settled messages.

        What is live in the origin up to the base's end was copied, as sequences don't come back. So as many are the
        same.
        """
        rows = sum(file.rows for file in _message_files(version, state))
        return self._origin(base) is not None and copy.holds and copy.index.msgs == rows

    def _origin(self, base: BranchBase) -> StreamState | None:
        """Return the stream whose rows the base has, if it is still there."""
        origin = self._streams.get(base.parts[0].stream)
        return origin if origin is not None and origin.stream_id == base.parts[0].stream_id else None

    def _restore(self, state: StreamState, version: Snapshot, known: StreamIndex | None) -> None:
        mark, files = version.watermarks[state.name], _message_files(version, state)
        restore_stream(state, mark, [], self._settled, files, known)


def _message_files(version: Snapshot, state: StreamState) -> list[DataFile]:
    return [file for file in version.of_stream(state.name) if file.has_messages]


def _as_they_are(then: StreamConfig, new: StreamConfig) -> bool:
    """Whether a branch takes the messages of its point without deciding about each one."""
    copies = new.mirror is not None or bool(new.sources)
    return _bounds(then) == _bounds(new) and not copies and not own_metadata(new.metadata)


def _bounds(config: StreamConfig) -> tuple[int, int, int]:
    return config.max_msgs, config.max_bytes, config.max_msgs_per_subject
