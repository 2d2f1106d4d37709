"""What a look at ``messages`` costs, again and again: nothing that grows with the journal's log."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.gateway.gateway_options import parse
from api.gateway.gateway_stores import claim_stores
from conf.clock import SystemClock
from delta_store.reading.read_threads import ReadThreads
from delta_store.storage.local_storage import LocalStorage
from delta_store.stores.replica import Replica
from tests.tables import History, Tables

COMMITS = 40
LOOKS = 5


class Reads:
    """Counts the files of the journal that are read as a whole, and the folders that are listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("read", "sizes"):
            monkeypatch.setattr(LocalStorage, name, self._counted(getattr(LocalStorage, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(storage: LocalStorage, name: str) -> Any:
            self.count += storage.root.name == "journal"
            return method(storage, name)

        return counted


@pytest.fixture(params=["nothing settled yet", "torn end"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal of many commits, beside no ``messages`` or one whose end a power cut tore."""
    tables, history = Tables(tmp_path), History()
    tables.commit([history.create()])
    for _ in range(COMMITS):
        tables.commit([history.publish("s.1")])
    if request.param == "torn end":
        tables.settle()
        log = tmp_path / "messages" / "_delta_log"
        os.truncate(max(log.glob("*.json")), 0)
    return tmp_path


def test_a_look_does_not_read_the_journal_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's reads nothing of it, an HTTP server's the one entry that may have come since."""
    stores = claim_stores(*parse(["--nats", "nats://127.0.0.1:1", "--leaf", "nats://127.0.0.1:1", "--data", str(data)]))
    reads = Reads(monkeypatch)
    for _ in range(LOOKS):
        stores.settled.refresh()
    assert reads.count == 0

    async def run() -> int:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(data), threads, clock=SystemClock())
        await replica.open()
        reads.count = 0
        for _ in range(LOOKS):
            await replica.refresh()
        threads.close()
        return reads.count

    assert asyncio.run(run()) <= 2 * LOOKS
