"""A reader that follows the tables, a little at a time however much has come."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import delta_store.stores.replica as replica_module
from conf.clock import SystemClock
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from tests.tables import History, Tables


def test_much_at_once_is_followed_to_the_commit_that_was_last(tmp_path: Path) -> None:
    """After a refresh all that was committed before is there, also when it is more than is read at a time."""
    tables, history = Tables(tmp_path), History()
    tables.commit([history.create()])

    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(tmp_path), threads, clock=SystemClock(), tail_bytes=20_000_000)
        await replica.open()
        for number in range(12):
            tables.commit([history.publish("s.1", bytes([number]) * 8_000_000)])
        reads = [replica.refresh(), replica.refresh()]
        await asyncio.gather(*reads)
        state = replica.catalog.streams["S"]
        assert (state.index.msgs, replica.journal_version) == (12, tables.journal.reader.version)
        kept = [replica.payloads.now("S", state.stream_id, seq) for seq in (1, 12)]
        assert kept[0] is None
        assert kept[1] is not None
        assert kept[1].data == bytes([11]) * 8_000_000
        threads.close()

    asyncio.run(run())


def test_opening_may_take_longer_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is not settled: only requests are bound by the time limit of reads, and say so when it is over."""
    tables, history = Tables(tmp_path), History()
    tables.commit([history.create(), history.publish("s.1")])
    open_stores = replica_module.open_stores

    def slowly(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.6)
        return open_stores(*arguments, **options)

    monkeypatch.setattr(replica_module, "open_stores", slowly)

    async def run() -> None:
        threads = ReadThreads(2, timeout_seconds=0.2)
        replica = Replica(str(tmp_path), threads, clock=SystemClock())
        await replica.open()
        assert replica.catalog.streams["S"].index.msgs == 1
        with pytest.raises(TimeoutError, match=r"longer than 0\.2 s"):
            await threads.run(lambda: time.sleep(0.6))
        threads.close()

    asyncio.run(run())
