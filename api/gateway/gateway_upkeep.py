"""The gateway's background work, off the event loop: follow the watermark, truncate the journal, clean it up.

The order matters: read the watermark of ``messages``, confirm it by the settled files themselves, fsync everything up
to it and read it back, and only then truncate the journal up to that watermark.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.limits import SETTLE_LAG_TOLD_SECONDS, SETTLED_POLL_SECONDS
from conf.settings import JournalSettings
from delta_store.entries.settle_lag import Lag, Pressure, Volume, brake_seconds, fill, lag_of, pressure_of
from delta_store.journal.journal import Journal
from delta_store.log.settled_durability import NotDurable, make_durable
from delta_store.reading.settle_state import StateListener
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_confirm import confirm_settled
from delta_store.values.schemas import MESSAGES_FOLDER

Report = Callable[[str, str], None]


class GatewayUpkeep:
    """The rounds of upkeep; ``report`` gets the event and reason of a failure."""

    def __init__(
        self,
        journal: Journal,
        settled: SettledTable,
        *,
        data: DataLocation,
        executor: Executor,
        report: Report,
        chosen: JournalSettings,
    ) -> None:
        """``chosen`` has the limits of unsettled rows, bytes and files."""
        self._journal = journal
        self._settled = settled
        self._data = data
        self._executor = executor
        self._report = report
        relied = journal.reader.relies_on
        self._durable_version = -1 if relied is None else relied
        """Version of ``messages`` up to which everything has been fsynced and read back."""
        self._bounds = Volume(chosen.unsettled_rows_max, chosen.unsettled_bytes_max, chosen.unsettled_files_max)
        self._measured = self._look()
        """The lag at the last round, and the journal's volume right before."""
        self.told: dict[str, Any] = {}
        """The lag and the state of the settle job, for the API."""
        self._pressure = Pressure.NONE
        self._clock = SystemClock()
        self._settle_job = StateListener(data.uri, self._clock, storage_options=data.options)
        self._reported_at = 0.0
        self._hastened = asyncio.Event()

    def hasten(self) -> None:
        """Have the next round begin at once; called on the event loop."""
        self._hastened.set()

    @property
    def brake_seconds(self) -> float:
        """Seconds for which acknowledgements are held back."""
        return brake_seconds(self._share)

    @property
    def is_full(self) -> bool:
        """Whether a limit of unsettled rows, bytes or files is exceeded."""
        return self._share >= 1

    @property
    def _share(self) -> float:
        """The used share of the limits: by the lag of the last round and everything committed since."""
        lag, before = self._measured
        return fill(lag.grown(before, self._journal.written), self._bounds)

    async def run(self) -> None:
        """Run rounds until cancelled; an error of one is reported, and the next tries again."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLED_POLL_SECONDS):
                    await self._hastened.wait()
            self._hastened.clear()
            await asyncio.shield(loop.run_in_executor(self._executor, self.once))

    def once(self) -> None:
        """Run one round; blocks."""
        try:
            self._truncate()
            self._measure()
            if self._journal.checkpoint_is_due:
                self._journal.checkpoint()
            self._journal.cleanup()
            self._journal.delete_removed()
        except Exception as error:  # noqa: BLE001  # a round that fails costs nothing but its own work
            self._report("upkeep failed", f"{type(error).__name__}: {error}")

    def _look(self) -> tuple[Lag, Volume]:
        settled = {name: mark.position for name, mark in self._settled.watermarks.items()}
        before = self._journal.written
        return lag_of(self._journal.reader.live_files(), settled), before

    def _measure(self) -> None:
        """Measure the lag; report it when the pressure changes, and now and then while there is any."""
        self._measured = self._look()
        lag = self._measured[0]
        pressure = pressure_of(fill(lag, self._bounds))
        self.told = self._tell(lag)
        now = self._clock.monotonic()
        lasts = pressure is not Pressure.NONE and now - self._reported_at >= SETTLE_LAG_TOLD_SECONDS
        if pressure is not self._pressure or lasts:
            self._pressure, self._reported_at = pressure, now
            self._report(pressure.value, f"{lag.rows} rows, {lag.bytes} bytes, {lag.files} files are not settled")

    def _tell(self, lag: Lag) -> dict[str, Any]:
        now_ns = self._clock.now_ns()
        told: dict[str, Any] = {"rows": lag.rows, "bytes": lag.bytes, "files": lag.files}
        told["seconds"] = round(lag.seconds(now_ns), 1)
        told["used"] = round(fill(lag, self._bounds), 4)
        news = self._settle_job.news()
        return told | {"state": news.state.value, "why": news.error}

    def _truncate(self) -> None:
        snapshot = self._settled.refresh()
        if snapshot.version <= self._durable_version or not snapshot.watermarks:
            return
        try:
            confirm_settled(self._settled, snapshot, self._journal.reader.live_files())
            if self._data.is_local:
                make_durable(self._data.folder / MESSAGES_FOLDER, self._durable_version, snapshot.version)
        except NotDurable as error:
            self._report("journal kept", f"{error}; run: silt verify")
            return
        self._durable_version = snapshot.version
        settled = {name: mark.position for name, mark in snapshot.watermarks.items()}
        self._journal.truncate(settled, relies_on=snapshot.version)
