"""Mirrors and sources: durable messages of one stream are copied into others of the same store.

Each copy takes one step at a time, bounded in messages and bytes, and the next one when that is durable. A step appends
to the gathering group, like a publish. Messages that are not in memory are read in a thread, for one copy after the
other. For those of other domains see :mod:`ingest.flow.origin_copies`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from conf.clock import Clock
from conf.limits import COPY_RETRY_SECONDS, COPY_STEP_BYTES, COPY_STEP_MESSAGES, COPY_TURN_MESSAGES
from delta_store.reading.read_plan import ReadPlan, step_of
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.store_reader import StoreReader
from delta_store.streams.catalog import Catalog
from delta_store.streams.copies_here import has_caught_up
from delta_store.streams.copy_links import CopyLink, links_of
from delta_store.streams.stream_sources import (
    identity,
    is_local,
)
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import ReadError
from delta_store.values.stream_message import MessageRun
from ingest.publishing.copied_messages import note_caught_up, store_copies
from ingest.publishing.group import Gathering

_Key = tuple[str, int, str]
_DURABLE_SPARE = 1_000
"""Number of deleted streams whose durable sequence is still kept."""


@dataclass(slots=True, eq=False)
class _Copy:
    """One mirror or source."""

    link: CopyLink
    origin_id: int = 0
    """Id of the stream that ``next_seq`` belongs to."""
    next_seq: int = 0
    waits: bool = False
    """Whether the last step is not durable yet, or a read is under way."""
    not_before: float = 0.0
    """Monotonic time of the next try after a failed one."""
    trouble: str = ""
    """Reason of the last try's failure, empty for none."""

    @property
    def key(self) -> _Key:
        """Its unique key."""
        target, source, label, _ = self.link
        return target.name, target.stream_id, f"{label}\n{source.opt_start_seq}"


class Core(Protocol):
    """The core: the streams, and the group that copies are appended to."""

    @property
    def catalog(self) -> Catalog:
        """The streams."""
        ...

    @property
    def gathering(self) -> Gathering:
        """The gathering group."""
        ...

    def copied(self, origin: StreamState, seqs: Sequence[int]) -> None:
        """Apply that messages of ``origin`` have been copied into another stream."""
        ...


class StreamCopies:
    """The copies of all mirrors and sources; used on the gateway's event loop only."""

    def __init__(
        self,
        core: Core,
        reader: StoreReader,
        *,
        clock: Clock,
        changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """``changed`` is called when the gathering group has new rows, ``warn`` once with the reason of a halt."""
        self._core = core
        self._changed = changed
        self._warn = warn
        self._catalog = core.catalog
        self._reader = reader
        self._clock = clock
        self._copies: dict[_Key, _Copy] = {}
        self._synced = -1
        self._durable: dict[tuple[str, int], int] = {}
        self._kick = asyncio.Event()
        self._reads: deque[tuple[_Copy, StreamState, list[int]]] = deque()
        self._stopped = False

    def restore(self) -> None:
        """Begin with a catalog whose state is all durable."""
        for state in self._catalog.streams.values():
            self._durable[state.name, state.stream_id] = state.index.last_seq
        self.sync()

    def sync(self) -> None:
        """Follow the catalog, whose streams may have been created, updated or deleted."""
        self._kick.set()
        if self._synced == self._catalog.changes:
            return
        self._synced = self._catalog.changes
        streams = self._catalog.streams
        if len(self._durable) > 2 * len(streams) + _DURABLE_SPARE:
            live = {(state.name, state.stream_id) for state in streams.values()}
            self._durable = {key: seq for key, seq in self._durable.items() if key in live}
        known, self._copies = self._copies, {}
        for state in streams.values():
            if state.config.mirror is None and not state.config.sources:
                continue
            for copy in map(_Copy, links_of(state)):
                kept = known.get(copy.key)
                self._copies[copy.key] = kept if kept is not None and kept.link.target is state else copy

    def released(self, reached: Mapping[tuple[str, int], int]) -> None:
        """Take the next steps, as streams, by name and id, are durable up to these sequences."""
        self._durable |= reached
        if not self._copies:
            return
        reading = {copy for copy, _, _ in self._reads}
        for copy in self._copies.values():
            if copy.waits and copy not in reading and (copy.link.target.name, copy.link.target.stream_id) in reached:
                copy.waits = False
        self._advance()

    def stop(self) -> None:
        """Take no more steps."""
        self._stopped = True

    async def run(self) -> None:
        """Take steps and read until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(COPY_RETRY_SECONDS):
                    await self._kick.wait()
            self._kick.clear()
            self._advance()
            while self._reads:
                await self._read(*self._reads[0])
                self._reads.popleft()
                self._advance()
            await asyncio.sleep(0)

    def _advance(self) -> None:
        """Take a step of each copy that may."""
        left, now = COPY_TURN_MESSAGES, self._clock.monotonic()
        for copy in self._copies.values():
            if self._stopped or self._catalog.held or copy.waits or copy.not_before > now:
                continue
            if left <= 0:
                self._kick.set()
                return
            left -= self._step(copy)

    def _step(self, copy: _Copy) -> int:
        """Copy the next messages, or queue a read of them; return the number copied."""
        origin = self._catalog.streams.get(copy.link.source.name)
        if origin is None or not is_local(copy.link.source, self._catalog.domain):
            return 0
        durable = self._durable.get((origin.name, origin.stream_id), -1)
        if durable < 0:
            return 0
        if copy.origin_id != origin.stream_id:
            copy.origin_id, copy.next_seq = origin.stream_id, copy.link.next_seq(origin)
            self._begin(copy, origin)
        if copy.next_seq > durable:
            return 0
        limit = step_of(origin.index, COPY_STEP_MESSAGES, COPY_STEP_BYTES)
        seqs = copy.link.selection.sequences(origin.index, copy.next_seq, up_to=durable, limit=limit)
        if not seqs:
            copy.next_seq = durable + 1
            return 0
        run = self._reader.payloads.span_now(origin.name, origin.stream_id, seqs)
        if not len(run):
            copy.waits = True
            self._reads.append((copy, origin, seqs))
            self._kick.set()
            return 0
        return self._store(copy, origin, MessageRun.of(run))

    def _begin(self, copy: _Copy, origin: StreamState) -> None:
        """Begin an empty mirror at its origin's first sequence, as nats-server does."""
        state, first = copy.link.target, max(copy.next_seq, origin.index.first_seq)
        if not copy.link.label and not state.index.first_seq and first > 1:
            state.index.restore_bounds(first_seq=first, last_seq=first - 1, last_ts=0)
            state.record_removal([], "skip", now_ns=self._clock.now_ns(), rows=self._core.gathering.group.rows)
            self._changed()

    async def _read(self, copy: _Copy, origin: StreamState, seqs: list[int]) -> None:
        """Copy messages from files; a failed read is tried again later."""
        found, trouble = None, ""
        try:
            found = await self._reader.read_run(ReadPlan(origin.name, origin.stream_id, seqs))
        except ReadsBusy:
            trouble = copy.trouble
        except (ReadError, TimeoutError) as error:
            trouble = f"its messages can't be read: {str(error) or type(error).__name__}"
        copy.waits = False
        streams = self._catalog.streams
        is_current = self._copies.get(copy.key) is copy and streams.get(origin.name) is origin
        if self._stopped or not is_current:
            return
        if found is None or self._catalog.held:
            self._try_later(copy, trouble)
        elif len(found.run):
            self._store(copy, origin, found.run)
        elif found.lost == seqs[0]:
            self._try_later(copy, f"its message {found.lost} is in no file")
        else:
            copy.next_seq = found.lost or seqs[-1] + 1

    def _try_later(self, copy: _Copy, trouble: str) -> None:
        copy.not_before = self._clock.monotonic() + COPY_RETRY_SECONDS
        self._tell(copy, trouble)

    def _tell(self, copy: _Copy, trouble: str) -> None:
        """Warn of a halted copy, once for each reason."""
        if trouble and trouble != copy.trouble:
            self._warn(f"stream {copy.link.target.name} waits for its copy of {copy.link.source.name}: {trouble}")
        copy.trouble = trouble

    def _store(self, copy: _Copy, origin: StreamState, run: MessageRun) -> int:
        group, now_ns = self._core.gathering.group, self._clock.now_ns()
        ident = identity(origin.name, origin.stream_id)
        done = store_copies(self._catalog, copy.link, run, identity=ident, now_ns=now_ns, group=group)
        if not done:
            self._try_later(copy, f"its next message, {run.seqs[0]}, is refused")
            return 0
        if not copy.link.label and not copy.link.target.serves_origin and has_caught_up(copy.link, origin):
            note_caught_up(copy.link.target, now_ns=now_ns, group=group)
        copy.next_seq, copy.waits = run.seqs[done - 1] + 1, True
        self._core.copied(origin, run.seqs[:done])
        self._tell(copy, "")
        self._changed()
        return done
