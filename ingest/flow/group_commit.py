"""Group commit: while one commit is on its way the next group gathers; a lone publisher is committed at once.

Theory of operation. Decision code appends rows and reply frames to :attr:`GroupCommitter.group` and calls
:meth:`GroupCommitter.changed`. The committer takes the whole group, has its rows committed (one Delta commit, fsynced)
and only then releases it, strictly in the order of the groups. So nothing leaves Silt before all state it was computed
from is durable. A group without rows that finds nothing pending is released on the spot.

When the disk is full, what has been decided is committed out of the journal's reserve, and from then on nothing is to
be decided that needs a commit (:attr:`GroupCommitter.blocked`) until there is room: so memory shows what is durable,
and reads go on. Where that fails, or another error can be retried, the group in flight and the one behind it wait;
only their streams (:attr:`GroupCommitter.hidden`) can't be shown meanwhile.

Commits run on one worker thread when the store is slow (an object store) and on the event loop when it is a local
disk: four fsyncs take about a millisecond there, less than handing the interpreter lock back and forth around each
of the dozen system calls, and what arrives meanwhile waits in the socket's buffer and makes the next group.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

from conf.limits import COMMIT_RETRY_SECONDS
from delta_store.entries.log_entry import Marks
from delta_store.values.journal_errors import JournalError, StorageFull
from delta_store.values.records import RowColumns
from ingest.publishing.group import Group


@dataclass(frozen=True, slots=True)
class Pace:
    """When a group that is still growing is committed: after the time, the rows or the bytes, whatever comes first."""

    interval_seconds: float = 0.0
    """Least time between the starts of two commits; 0 commits as soon as nothing more is at hand."""
    rows: int = 2_000
    bytes: int = 8 * 1024 * 1024


class GroupCommitter:
    """Commits groups one after another and releases them in order.

    ``commit`` is the blocking journal commit of a group's rows. ``marks`` says, when a group is taken, where its
    streams stand behind its rows. ``seal`` appends to a group, right before it is taken, the rows that sum up what it
    holds (a consumer's state after all its acks). ``release`` sends a group's replies. A retryable
    :class:`JournalError` (a full disk) holds the group until it succeeds; any other error ends :meth:`run` with that
    error: nothing later is acknowledged.
    """

    def __init__(
        self,
        commit: Callable[[RowColumns, Marks], object],
        release: Callable[[Group], None],
        *,
        marks: Callable[[RowColumns], Marks],
        seal: Callable[[Group], None] | None = None,
        executor: Executor | None = None,
        pace: Pace = Pace(),
    ) -> None:
        self._commit = commit
        self._marks = marks
        self._seal = seal
        self._release = release
        self._executor = executor
        self._pace = pace
        self._work = asyncio.Event()
        self._enough = asyncio.Event()
        self._in_flight: Group | None = None
        self.group = Group()
        """The group that gathers now; decision code appends to it."""
        self.blocked: JournalError | None = None
        """Why nothing new may be decided that needs a commit, None when all may be."""
        self.brake_seconds: Callable[[], float] = lambda: 0.0
        """How long to hold back a durable group's replies, and the next commit; set likewise."""
        self.has_room: Callable[[], bool] = lambda: True
        """Asks the journal whether more may be decided; set by whoever assembles the gateway."""
        self.on_blocked: Callable[[bool], None] = lambda _blocked: None
        """Told when :attr:`blocked` begins, before anything else is decided, and when it ends; set likewise."""

    @property
    def pending_rows(self) -> int:
        """Rows decided and not yet durable."""
        return len(self.group.rows) + (len(self._in_flight.rows) if self._in_flight else 0)

    @property
    def pending_bytes(self) -> int:
        """Payload and header bytes decided and not yet durable."""
        return self.group.bytes + (self._in_flight.bytes if self._in_flight else 0)

    @property
    def hidden(self) -> set[str]:
        """Streams that memory shows otherwise than they are on the disk."""
        in_flight = self._in_flight.rows.stream if self._in_flight is not None else ()
        return {*in_flight, *self.group.rows.stream}

    @property
    def idle(self) -> bool:
        """Whether all that was decided is durable and released."""
        return self._in_flight is None and self.group.empty

    def changed(self) -> None:
        """Say that the group has new rows, replies or reads."""
        if self._in_flight is None and self._seal is not None and self.blocked is None and not len(self.group.rows):
            self._seal(self.group)
        if self._in_flight is None and not len(self.group.rows):
            group, self.group = self.group, Group()
            self._release(group)
            return
        self._work.set()
        if self._is_enough():
            self._enough.set()

    async def run(self) -> None:
        """Commit for ever; cancel it after :meth:`drain`."""
        loop = asyncio.get_running_loop()
        not_before = loop.time()
        self._look_for_room()
        while True:
            while self.blocked is not None and not self._work.is_set():
                await asyncio.sleep(COMMIT_RETRY_SECONDS)
                self._look_for_room()
            await self._work.wait()
            self._work.clear()
            while not self.group.empty:
                await self._gather(not_before)
                not_before = loop.time() + self._pace.interval_seconds
                if self._seal is not None and self.blocked is None:
                    self._seal(self.group)
                self._in_flight, self.group = self.group, Group()
                if len(self._in_flight.rows):
                    await self._make_durable(self._in_flight, loop)
                    if held := self.brake_seconds():
                        await asyncio.sleep(held)
                group, self._in_flight = self._in_flight, None
                self._release(group)
                await asyncio.sleep(0)

    async def _gather(self, not_before: float) -> None:
        """Let the group grow while more keeps coming: a commit costs the same for one row as for hundreds."""
        if self._pace.interval_seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(not_before):
                    await self._enough.wait()
        rows = -1
        while rows < len(self.group.rows) and not self._is_enough():
            rows = len(self.group.rows)
            await asyncio.sleep(0)
        self._enough.clear()

    def _is_enough(self) -> bool:
        return len(self.group.rows) >= self._pace.rows or self.group.bytes >= self._pace.bytes

    async def _make_durable(self, group: Group, loop: asyncio.AbstractEventLoop) -> None:
        rows, marks = group.rows, self._marks(group.rows)
        while True:
            try:
                if self._executor is None:
                    self._commit(rows, marks)
                else:
                    await asyncio.shield(loop.run_in_executor(self._executor, self._commit, rows, marks))
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
        if not self.has_room():
            self._block(StorageFull("journal", "no space left but the reserve"))
        elif self.blocked is not None:
            self.blocked = None
            self.on_blocked(False)

    def _block(self, error: JournalError) -> None:
        """Refuse what needs a commit from now on; what the group has gathered until here is still committed."""
        if self.blocked is None:
            if self._seal is not None and not self.group.empty:
                self._seal(self.group)
            self.blocked = error
            self.on_blocked(True)

    async def drain(self, timeout_seconds: float) -> None:
        """Return when everything decided so far is durable and released; ``TimeoutError`` when that takes too long."""
        async with asyncio.timeout(timeout_seconds):
            while not self.idle:
                self._work.set()
                await asyncio.sleep(0.001)
