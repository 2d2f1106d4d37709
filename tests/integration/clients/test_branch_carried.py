"""Branches of a large stream, whose settled messages the settle job copies by files: whole, or made in the old way."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from conf.clock import SystemClock
from conf.limits import BRANCH_CARRIED_MESSAGES_MIN
from delta_store.config.stream_config import StreamConfig
from delta_store.journal.journal import Journal
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.settle_state import SettleState, StateTeller
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.open_storage import open_storage
from delta_store.stores.replica import Replica
from delta_store.streams import restores
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import NewRun
from delta_store.values.records import Row, RowColumns
from tests.carried import settle_with_bases, unsettled
from tests.groups import open_journal_on
from tests.integration.clients.test_stream_past import ask, on
from tests.servers import silt_server
from tests.staged import open_owner
from tests.wire import Wire

NUMBER, STEP = 600, 100
LAST = NUMBER * STEP
assert LAST > BRANCH_CARRIED_MESSAGES_MIN
REMOVED = [5 * STEP, LAST - 7 * STEP]
LATER = 5


def filled(data: Path) -> SettledOwner:
    """Stream S of many sequences, all settled: each hundredth has a message, two were removed, some have headers."""
    catalog, rows = Catalog(), RowColumns()
    config = StreamConfig(name="S", subjects=("s.>",), allow_direct=True)
    state = restores.begin(catalog, config, now_ns=SystemClock().now_ns(), rows=rows)
    subjects = [f"s.{number % 3}" for number in range(NUMBER)]
    sids = [state.index.table.intern(subject) for subject in subjects]
    headers = [b"NATS/1.0\r\nN: 1\r\n\r\n" if number % 10 == 0 else None for number in range(NUMBER)]
    bodies = [b"%d" % (number + 1) for number in range(NUMBER)]
    run = NewRun(subjects, sids, headers, bodies, None, np.arange(STEP, LAST + 1, STEP))
    state.store_run(run, now_ns=SystemClock().now_ns(), rows=rows)
    restores.show(catalog, state, now_ns=SystemClock().now_ns(), rows=rows)
    for seq in REMOVED:
        catalog.remove("S", seq, now_ns=SystemClock().now_ns(), rows=rows, erase=False)
    journal: Journal = open_journal_on(open_storage(str(data / "journal"), {}), SystemClock())
    journal.commit(rows)
    owner = open_owner(open_storage(str(data / "messages"), {}), SystemClock())
    settle_with_bases(owner, rows.rows())
    return owner


class Settler:
    """Who settles, but nothing of S any more; in a thread."""

    def __init__(self, data: Path, owner: SettledOwner, before: Callable[["Settler", list[Row]], bool]) -> None:
        """``before`` returns whether rows are to be settled."""
        self.told = StateTeller(data, SystemClock())
        self.carried = 0
        self._tail = JournalTail(str(data / "journal"))
        self._owner, self._before = owner, before

    @contextmanager
    def running(self) -> Iterator[None]:
        """Settle until the block ends."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(0.05):
                rows = [row for row in unsettled(self._tail, self._owner) if row.stream != "S"]
                if rows and self._before(self, rows):
                    report = settle_with_bases(self._owner, rows)
                    self.carried += sum(file.rows for file in report.files) - len(rows)

        thread = threading.Thread(target=run)
        with self.told:
            self.told.tell(SettleState.SETTLING)
            thread.start()
            try:
                yield
            finally:
                ended.set()
                thread.join()


async def told_settling(wire: Wire) -> None:
    """Wait until the gateway knows that someone settles."""
    async with asyncio.timeout(60):
        while (await ask(wire, "SETTLING")).get("state") != "settling":  # noqa: ASYNC110  # the gateway looks each second
            await asyncio.sleep(0.05)


async def branched(wire: Wire, name: str = "T", point: str | None = None) -> dict[str, Any]:
    """The state of a branch once it is made."""
    await told_settling(wire)
    body: dict[str, Any] = {"name": name, "config": {"subjects": [name.lower()]}}
    reply = await ask(wire, "STREAM.BRANCH.S", body | ({"silt_as_of": point} if point else {}))
    assert "error" not in reply, reply
    return dict(reply["state"])


async def published(wire: Wire) -> None:
    """Messages of S that nobody settles."""
    for number in range(LATER):
        await wire.ask("s.9", b"later %d" % number)


def test_branches_by_files_are_the_same_branches(tmp_path: Path) -> None:
    """Live messages of the point, settled or not; shown when all is durable, to readers too, and after a kill."""
    data = tmp_path / "data"
    data.mkdir()
    settler = Settler(data, filled(data), lambda *_: True)
    now, then = (NUMBER + LATER - len(REMOVED), LAST + LATER), (NUMBER - 1, LAST - STEP)

    async def make(wire: Wire) -> None:
        threads = ReadThreads(1, timeout_seconds=60)
        replica = Replica(str(data), threads, clock=SystemClock())
        await replica.open()
        await published(wire)
        for name, point, (number, last) in (("T", None, now), ("U", str(then[1]), then)):
            state = await branched(wire, name, point)
            assert (state["messages"], state["first_seq"], state["last_seq"]) == (number, STEP, last)
            await replica.refresh()
            index = replica.catalog.streams[name].index
            assert (index.msgs, index.last_seq) == (number, last)
            for seq in (STEP, 11 * STEP, last):
                one, origin = [await ask(wire, f"STREAM.MSG.GET.{stream}", {"seq": seq}) for stream in (name, "S")]
                assert one["message"] == origin["message"]
            await wire.ask(name.lower(), b"its own")
        threads.close()

    async def look(wire: Wire) -> None:
        for name, (number, last), is_there in (("T", now, False), ("U", then, True)):
            state = (await ask(wire, f"STREAM.INFO.{name}"))["state"]
            assert (state["messages"], state["last_seq"]) == (number + 1, last + 1)
            for seq in REMOVED:
                assert ("error" not in await ask(wire, f"STREAM.MSG.GET.{name}", {"seq": seq})) == is_there

    with silt_server(tmp_path) as silt, settler.running():
        on(silt, make)
        assert settler.carried == now[0] - LATER + then[0]
        silt.child.kill()
        silt.start()
        on(silt, look)


def test_a_branch_is_made_in_the_old_way_where_settling_stops(tmp_path: Path) -> None:
    """Nothing of the first attempt is left, and the branch is whole."""
    data = tmp_path / "data"
    data.mkdir()

    def stop(settler: Settler, rows: list[Row]) -> bool:
        if any(row.stream == "T" and b'"base"' in row.data for row in rows):
            settler.told.tell(SettleState.STARTING)
        return False

    settler = Settler(data, filled(data), stop)
    with silt_server(tmp_path) as silt, settler.running():
        on(silt, published)
        state = on(silt, branched)
        number = NUMBER + LATER - len(REMOVED)
        assert (state["messages"], state["last_seq"], settler.carried) == (number, LAST + LATER, 0)
        names = on(silt, lambda wire: ask(wire, "STREAM.NAMES"))["streams"]
        assert sorted(names) == ["S", "T"]
