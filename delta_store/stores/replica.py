"""A read-only follower of the store: its own catalog, kept up to date from the tables. Holds no lock, writes nothing.

Each refresh reads the new journal entries in a worker thread, and applies their rows on the loop. A follower that fell
so far behind that truncation removed a file before it was read rebuilds itself.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from conf.clock import Clock
from conf.limits import REBUILD_SECONDS_MAX
from delta_store.reading.journal_scan import rows_of
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import TAIL_BYTES, Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadsBusy, ReadThreads, within
from delta_store.reading.settle_watch import SettleReport, SettleWatch
from delta_store.reading.settled import CACHE_BYTES, SettledTable
from delta_store.reading.store_reader import StoreReader
from delta_store.reading.tail_cache import TailCache
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.stores.stores_open import Opened, open_stores
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import BEGUN, CARRIED, read_restored
from delta_store.streams.replay import replay
from delta_store.values.read_errors import FileGone, StoreAway
from delta_store.values.records import Kind, RowColumns
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER
from delta_store.values.watermark import Watermarks

_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""Payload bytes after which rows are applied before more are read."""


class _Update(NamedTuple):
    """The result of one reading of the tables."""

    journal_version: int
    rows: list[RowColumns]
    rebuilt: Opened | None = None
    newest: TailCache | None = None
    """The newest payloads of the rebuilt catalog."""
    seen: int = -1
    """The journal's newest version where this ends before it: only so much is held in memory at a time."""


class Replica:
    """A catalog with its payloads and its past; every method but :meth:`open` belongs to one event loop."""

    def __init__(  # noqa: PLR0913  # what a process is told, by name
        self,
        location: str,
        threads: ReadThreads,
        *,
        clock: Clock,
        domain: str = "",
        storage_options: Mapping[str, str] | None = None,
        cache_bytes: int = CACHE_BYTES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        """Follow the tables in ``location``, the data folder (or URL) that holds both.

        ``domain`` is that of our JetStream: a mirror that names it as its origin's is one of a stream of this store.
        """
        self.threads = threads
        self._clock = clock
        self._domain = domain
        self._journal = JournalTail(f"{location}/{JOURNAL_FOLDER}", storage_options=storage_options)
        self._settled = SettledTable(
            f"{location}/{MESSAGES_FOLDER}",
            storage_options=storage_options,
            cache_bytes=cache_bytes,
            relied_on=self._journal.relies_on,
        )
        self._refreshing = asyncio.Lock()
        self._tail_bytes = tail_bytes
        self.catalog = Catalog(domain=domain)
        self.payloads = Payloads(self._settled, self._journal, tail_bytes=tail_bytes)
        self.past = PointInTime(self._settled, self._journal, clock=clock)
        self.reader = StoreReader(self, threads, clock=clock)
        self.journal_version = -1
        """Version of the journal that the catalog is at; -1 before there is one."""
        self.refreshed_at = clock.monotonic()
        self.opening = OpeningProgress()
        """Progress until :attr:`opened`."""
        self._opened = False
        self._applied = asyncio.Event()
        self._watch = SettleWatch(location, clock, storage_options=storage_options)

    @property
    def opened(self) -> bool:
        """Whether the tables have been read once."""
        return self._opened

    @property
    def age_seconds(self) -> float:
        """Seconds since the last refresh."""
        return self._clock.monotonic() - self.refreshed_at

    @property
    def settled_version(self) -> int:
        """Version of ``messages`` that payloads are read from."""
        return self._settled.version

    async def settling(self) -> SettleReport:
        """Return the state of settling; raise as :meth:`ReadThreads.run`, and ``JournalError``."""
        return await self.threads.run(partial(self._watch.look, self._settled.watermarks))

    @property
    def watermarks(self) -> Watermarks:
        """The last settled row of each stream."""
        return self._settled.watermarks

    async def open(self) -> None:
        """Build the catalog from the tables; a folder without tables is an empty store."""
        await self._catch_up()
        self._opened = True

    async def refresh(self) -> None:
        """Catch up with all that was committed before this call. Raises ``DamagedData`` and ``TimeoutError``."""
        async with within(self.threads.timeout_seconds):
            await self._catch_up()

    async def _catch_up(self) -> None:
        """Catch up as :meth:`refresh`, without its timeout: a rebuild may be long."""
        async with self._refreshing:
            seen = self.journal_version + 1
            while self.journal_version < seen:
                look = partial(self._look, self.journal_version)
                update = await self.threads.run(look, timeout_seconds=REBUILD_SECONDS_MAX)
                self._apply(update)
                seen = update.seen
            self.refreshed_at = self._clock.monotonic()

    async def changed(self, version: int) -> None:
        """Wait until the catalog is at another version of the journal than this one."""
        while self.journal_version == version:
            await self._applied.wait()

    async def run(self, interval_seconds: float) -> None:
        """Refresh again and again until cancelled; damage ends it, slowness only makes :attr:`age_seconds` grow."""
        while True:
            with suppress(TimeoutError, ReadsBusy, FileGone, StoreAway):
                await self._catch_up()
            await asyncio.sleep(interval_seconds)

    def _look(self, version: int) -> _Update:
        """Read, in a thread, what came after ``version``."""
        snapshot = self._journal.refresh()
        self._settled.refresh()
        if snapshot.version == version:
            return _Update(version, [])
        if version < 0:
            return self._rebuilt()
        rows: list[RowColumns] = []
        size, reached = 0, snapshot.version
        try:
            for number, file in self._journal.since(version, snapshot):
                rows.append(rows_of(self._journal, file))
                size += sum(map(len, rows[-1].data))
                if size >= _BYTES_AT_ONCE:
                    reached = number
                    break
        except FileGone:
            return self._rebuilt()
        if any(_begins_elsewhere(some, self.catalog) for some in rows):
            return self._rebuilt()
        return _Update(reached, rows, seen=snapshot.version if reached < snapshot.version else -1)

    def _rebuilt(self) -> _Update:
        newest = TailCache(self._tail_bytes)
        opened = open_stores(self._settled, self._journal, domain=self._domain, newest=newest, progress=self.opening)
        return _Update(opened.journal.version, [], opened, newest)

    def _apply(self, update: _Update) -> None:
        if update.rebuilt is not None and update.newest is not None:
            self.catalog = update.rebuilt.catalog
            self.payloads.tail = update.newest
        for rows in update.rows:
            replay(self.catalog, rows)
            self.payloads.stored(rows)
        self.journal_version = update.journal_version
        applied, self._applied = self._applied, asyncio.Event()
        applied.set()


def _begins_elsewhere(rows: RowColumns, catalog: Catalog) -> bool:
    """Whether rows show a stream whose first messages are not in the journal, and not in the catalog."""
    for place, kind in enumerate(rows.kind):
        if kind == Kind.STREAM and read_restored(rows.data[place])[0] == CARRIED:
            known = catalog.streams.get(rows.stream[place])
            if known is None or known.stream_id != rows.stream_id[place] or known.restored == BEGUN:
                return True
    return False
