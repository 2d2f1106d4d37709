"""Group commit: while one commit is on its way the next group gathers; a lone publisher is committed at once.

Theory of operation. Decision code appends rows and reply frames to :attr:`Gathering.group`, and
:meth:`GroupCommitter.changed` is called. The committer takes the whole group, has its rows committed (one Delta commit,
fsynced) and only then releases it, strictly in the order of the groups. So nothing leaves Silt before all state it was
computed from is durable. A group without rows that finds nothing pending is released on the spot.

When the disk is full, what has been decided is committed out of the journal's reserve, and from then on nothing is to
be decided that needs a commit (:attr:`Gathering.blocked`) until there is room: so memory shows what is durable,
and reads go on. Where that fails, or another error can be retried, the group in flight and the one behind it wait;
only their streams (:attr:`Gathering.hidden`) can't be shown meanwhile.

Commits run on one worker thread when the store is slow (an object store) and on the event loop when it is a local
disk: four fsyncs take about a millisecond there, less than handing the interpreter lock back and forth around each
of the dozen system calls, and what arrives meanwhile waits in the socket's buffer and makes the next group.
"""

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from conf.limits import COMMIT_RETRY_SECONDS
from delta_store.entries.log_entry import Marks
from delta_store.values.journal_errors import JournalError, StorageFull
from delta_store.values.records import RowColumns
from ingest.publishing.group import Gathering, Group


@dataclass(frozen=True, slots=True)
class Pace:
    """When a group that is still growing is committed: after the time, the rows or the bytes, whatever comes first."""

    interval_seconds: float = 0.0
    """Least time between the starts of two commits; 0 commits as soon as nothing more is at hand."""
    rows: int = 2_000
    bytes: int = 8 * 1024 * 1024


class GroupJournal(Protocol):
    """Where groups become durable."""

    def commit(self, rows: RowColumns, watermarks: Marks | None = None) -> int:
        """Make rows durable; blocks. Raises :class:`JournalError`."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether more may be decided."""
        ...


class Decider(Protocol):
    """Whose groups are committed."""

    def marks(self, rows: RowColumns) -> Marks:
        """Where the streams of a group that is taken stand behind its rows."""
        ...

    def seal(self, group: Group) -> None:
        """A group is about to be taken: append the rows that sum it up (a consumer's state after all its acks)."""
        ...

    def release(self, group: Group) -> None:
        """A group is durable: send its replies."""
        ...

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Nothing may be decided that needs a commit, told before anything else is decided; or all may be again."""
        ...

    def brake_seconds(self) -> float:
        """How long to hold back a durable group's replies, and the next commit."""
        ...


class GroupCommitter:
    """Commits groups one after another and releases them in order.

    A retryable :class:`JournalError` (a full disk) holds the group until it succeeds; any other error ends :meth:`run`
    with that error: nothing later is acknowledged.
    """

    def __init__(
        self,
        gathering: Gathering,
        journal: GroupJournal,
        decider: Decider,
        *,
        executor: Executor | None = None,
        pace: Pace = Pace(),
    ) -> None:
        """``executor`` runs commits where the store is slow, None has them run on the event loop."""
        self._gathering = gathering
        self._journal = journal
        self._decider = decider
        self._executor = executor
        self._pace = pace
        self._work = asyncio.Event()
        self._enough = asyncio.Event()

    def changed(self) -> None:
        """Say that the group has new rows, replies or reads."""
        gathering = self._gathering
        if gathering.in_flight is None and gathering.blocked is None and not len(gathering.group.rows):
            self._decider.seal(gathering.group)
        if gathering.in_flight is None and not len(gathering.group.rows):
            self._decider.release(gathering.take())
            if gathering.group.empty:
                return
        self._work.set()
        if self._is_enough():
            self._enough.set()

    async def run(self) -> None:
        """Commit for ever; cancel it after :meth:`drain`."""
        gathering, loop = self._gathering, asyncio.get_running_loop()
        not_before = loop.time()
        self._look_for_room()
        while True:
            while gathering.blocked is not None and not self._work.is_set():
                await asyncio.sleep(COMMIT_RETRY_SECONDS)
                self._look_for_room()
            await self._work.wait()
            self._work.clear()
            while not gathering.group.empty:
                await self._gather(not_before)
                not_before = loop.time() + self._pace.interval_seconds
                if gathering.blocked is None:
                    self._decider.seal(gathering.group)
                group = gathering.in_flight = gathering.take()
                if len(group.rows):
                    await self._make_durable(group, loop)
                    if held := self._decider.brake_seconds():
                        await asyncio.sleep(held)
                gathering.in_flight = None
                self._decider.release(group)
                await asyncio.sleep(0)

    async def _gather(self, not_before: float) -> None:
        """Let the group grow while more keeps coming: a commit costs the same for one row as for hundreds."""
        if self._pace.interval_seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(not_before):
                    await self._enough.wait()
        rows = -1
        while rows < len(self._gathering.group.rows) and not self._is_enough():
            rows = len(self._gathering.group.rows)
            await asyncio.sleep(0)
        self._enough.clear()

    def _is_enough(self) -> bool:
        return len(self._gathering.group.rows) >= self._pace.rows or self._gathering.group.bytes >= self._pace.bytes

    async def _make_durable(self, group: Group, loop: asyncio.AbstractEventLoop) -> None:
        rows, marks = group.rows, self._decider.marks(group.rows)
        while True:
            try:
                if self._executor is None:
                    self._journal.commit(rows, marks)
                else:
                    await asyncio.shield(loop.run_in_executor(self._executor, self._journal.commit, rows, marks))
            except JournalError as error:
                if not error.retryable:
                    raise
                self._block(error)
                await asyncio.sleep(COMMIT_RETRY_SECONDS)
            else:
                self._look_for_room()
                return

    def _look_for_room(self) -> None:
        """Begin or end to refuse what needs a commit."""
        if not self._journal.has_room:
            self._block(StorageFull("journal", "no space left but the reserve"))
        elif self._gathering.blocked is not None:
            self._gathering.blocked = None
            self._decider.hold(False)

    def _block(self, error: JournalError) -> None:
        """Refuse what needs a commit from now on; what the group has gathered until here is still committed."""
        if self._gathering.blocked is None:
            if not self._gathering.group.empty:
                self._decider.seal(self._gathering.group)
            self._gathering.blocked = error
            self._decider.hold(True)

    async def drain(self, timeout_seconds: float) -> None:
        """Return when everything decided so far is durable and released; ``TimeoutError`` when that takes too long."""
        async with asyncio.timeout(timeout_seconds):
            while not self._gathering.idle:
                self._work.set()
                await asyncio.sleep(0.001)
