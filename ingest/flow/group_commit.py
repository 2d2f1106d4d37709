"""Group commit: while one commit is under way the next group gathers; a lone publisher is committed at once.

Theory of operation. Decision code appends rows and reply frames to :attr:`Gathering.group`, and
:meth:`GroupCommitter.changed` is called. The committer takes the whole group, commits its rows (one Delta commit,
fsynced) and only then releases it, strictly in the order of the groups. So no reply leaves before all state it was
computed from is durable. A group without rows is released at once if nothing is pending.

When the disk is full, decided rows are committed out of the journal's reserve, and nothing that needs a commit is
decided (:attr:`Gathering.blocked`) until there is room: so memory shows what is durable, and reads continue. If that
fails, or on another retryable error, the group in flight and the one behind it wait; only their streams
(:attr:`Gathering.hidden`) can't be shown meanwhile.

Commits run on a worker thread for an object store, and on the event loop for a local disk: four fsyncs take about 1 ms
there, less than handing over the interpreter lock around each of a dozen system calls; messages that arrive meanwhile
wait in the socket's buffer and form the next group. Not so where a group is large, as those of restores are: the loop
goes on while the disk writes.
"""

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from conf.limits import COMMIT_RETRY_SECONDS, COMMIT_THREAD_BYTES
from delta_store.entries.log_entry import Marks
from delta_store.values.journal_errors import JournalError, StorageFull
from delta_store.values.records import RowColumns
from ingest.publishing.group import Gathering, Group


@dataclass(frozen=True, slots=True)
class Pace:
    """The bounds at which a growing group is committed: time, rows or bytes, whichever is reached first."""

    interval_seconds: float = 0.0
    """Least seconds between the starts of two commits; 0 commits as soon as no more messages are there."""
    lone_waits: bool = True
    """Whether a row waits so long that comes alone, after another that did: a lone publisher gains nothing by it."""
    rows: int = 2_000
    bytes: int = 8 * 1024 * 1024


class GroupJournal(Protocol):
    """The journal that groups are committed to."""

    def commit(self, rows: RowColumns, watermarks: Marks | None = None) -> int:
        """Make rows durable; blocks. Raises :class:`JournalError`."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether there is disk space beyond the reserve."""
        ...


class Decider(Protocol):
    """The owner of the groups."""

    def marks(self, rows: RowColumns) -> Marks:
        """Return the positions of a group's streams after its rows."""
        ...

    def seal(self, group: Group) -> None:
        """Append the closing rows of a group to be committed, such as a consumer's state after all its acks."""
        ...

    def release(self, group: Group) -> None:
        """Release a durable group: send its replies."""
        ...

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Begin or end to refuse decisions that need a commit; called before any further decision."""
        ...

    def brake_seconds(self) -> float:
        """Return the seconds for which to hold back a durable group's replies, and the next commit."""
        ...


class GroupCommitter:
    """The committer of groups, one after another, which releases them in order.

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
        """``executor`` runs commits to a slow store; None runs them on the event loop, large ones in a thread."""
        self._gathering = gathering
        self._journal = journal
        self._decider = decider
        self._executor = executor
        self._pace = pace
        self._work = asyncio.Event()
        self._enough = asyncio.Event()
        self._last_rows = 1
        """Rows of the last group."""

    def changed(self) -> None:
        """Handle new rows, replies or reads in the gathering group."""
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
        """Commit until cancelled, which is to follow :meth:`drain`."""
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
                    self._last_rows = len(group.rows)
                    await self._make_durable(group, loop)
                    if held := self._decider.brake_seconds():
                        await asyncio.sleep(held)
                gathering.in_flight = None
                self._decider.release(group)
                await asyncio.sleep(0)

    async def _gather(self, not_before: float) -> None:
        """Let the group grow while messages arrive: a commit costs the same for one row as for hundreds."""
        lone = max(self._last_rows, len(self._gathering.group.rows)) == 1 and not self._pace.lone_waits
        if self._pace.interval_seconds and not lone:
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
                if self._executor is None and group.bytes < COMMIT_THREAD_BYTES:
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
        """Begin or end to refuse decisions that need a commit, by the room on the disk."""
        if not self._journal.has_room:
            self._block(StorageFull("journal", "no space left but the reserve"))
        elif self._gathering.blocked is not None:
            self._gathering.blocked = None
            self._decider.hold(False)

    def _block(self, error: JournalError) -> None:
        """Refuse decisions that need a commit from now on; the gathered group is still committed."""
        if self._gathering.blocked is None:
            if not self._gathering.group.empty:
                self._decider.seal(self._gathering.group)
            self._gathering.blocked = error
            self._decider.hold(True)

    async def drain(self, timeout_seconds: float) -> None:
        """Wait until everything decided so far is durable and released. Raises ``TimeoutError``."""
        async with asyncio.timeout(timeout_seconds):
            while not self._gathering.idle:
                self._work.set()
                await asyncio.sleep(0.001)
