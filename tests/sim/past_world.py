"""A gateway on a real folder in virtual time, with its settle job played by :class:`tests.tables.Tables`.

For histories in chosen steps: each request is answered before the next is made, and the process may be killed between
two, or with one on its way.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from api.gateway import branch_carry, gateway_upkeep
from api.gateway.gateway import Gateway
from api.gateway.gateway_assembly import assemble
from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_stores import claim_stores
from conf.data_location import DataLocation
from conf.settings import ReadsSettings, Settings
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settle_state import SettleState, StateTeller
from delta_store.reading.settled import SettledTable
from tests.sim.sim_book import Held
from tests.sim.sim_hub import SimHub
from tests.sim.virtual_loop import VirtualClock, VirtualLoop
from tests.tables import Tables

_ANSWER_SECONDS = 30.0


class PastWorld:
    """Lives of a gateway on one folder."""

    def __init__(
        self, root: Path, dice: random.Random, *, horizon_seconds: float = 86_400.0, poll_seconds: float = 0.15
    ) -> None:
        """The gateway looks each ``poll_seconds`` what is settled."""
        self.root, self._poll_seconds = root, poll_seconds
        self._dice = dice
        self.loop = VirtualLoop(dice)
        self.clock = VirtualClock(self.loop)
        self.hub = SimHub(self.loop, dice, lambda _: None)
        self.tables = Tables(root, horizon_seconds=horizon_seconds)
        self._settled = SettledTable(str(root / "messages"))
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: Gateway | None = None
        self._ids = 0

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to the end of ``work``."""
        asyncio.set_event_loop(self.loop)
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(gateway_upkeep, "SystemClock", return_value=self.clock))
            stack.enter_context(mock.patch.object(gateway_upkeep, "SETTLED_POLL_SECONDS", self._poll_seconds))
            stack.enter_context(mock.patch.object(branch_carry, "BRANCH_CARRIED_MESSAGES_MIN", 1))
            try:
                self.loop.run_until_complete(work)
            finally:
                self.loop.run_until_complete(self.kill())
                asyncio.set_event_loop(None)
                self.loop.close()
        assert not self.loop.errors, self.loop.errors

    def begin(self) -> None:
        """Open the stores and run."""
        settings = Settings(reads=ReadsSettings(cache_bytes_max=self._dice.choice((0, 1 << 20))))
        options = GatewayOptions("", "", DataLocation(str(self.root)), "", api_over_leaf=True)
        stores = claim_stores(options, settings, clock=self.clock)
        interest = self.hub.greet()
        parts = assemble(
            stores,
            settings,
            self.hub,
            threads=None,  # type: ignore[arg-type]  # the loop has no threads
            clock=self.clock,
            new_id=self._new_id,
        )
        self._gateway = gateway = parts.gateway
        interest.on_change = gateway.interest
        self.hub.attach(gateway.receive)
        gateway.reachable(False)
        gateway.restore()
        gateway.reachable(True)
        self._tasks = [self.loop.create_task(parts.run())]

    async def stop(self) -> None:
        """End in order."""
        assert self._gateway is not None
        self._gateway.stop_copying()
        self.hub.mute()
        await self._gateway.wind_up(5.0)
        await self.kill()

    async def kill(self) -> None:
        """Be gone, with all that was under way."""
        self.hub.detach()
        self.loop.process += 1
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                raise error

    async def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        """The reply to a request of the API."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer = await self.hub.ask(f"$JS.API.{verb}".encode(), payload, seconds=_ANSWER_SECONDS)
        assert answer is not None, f"{verb} is not answered"
        return dict(json.loads(answer.payload))

    async def publish(self, subject: str, data: bytes) -> int:
        """Publish a message; return its sequence."""
        answer = await self.hub.ask(subject.encode(), data, seconds=_ANSWER_SECONDS)
        assert answer is not None, f"{subject} is not acknowledged"
        return int(json.loads(answer.payload)["seq"])

    async def read(self, stream: str, body: dict[str, Any]) -> list[Held]:
        """The messages of a batched Direct Get; an error status is an ``AssertionError`` that names it."""
        status, rows = await self.hub.batch(stream, json.dumps(body).encode(), seconds=_ANSWER_SECONDS)
        assert status[:3] in (b"204", b"404"), status
        return rows

    @asynccontextmanager
    async def settling(self) -> AsyncIterator[None]:
        """Settle again and again while the block runs, and have the gateway know."""
        told = StateTeller(self.root, self.clock)
        told.tell(SettleState.SETTLING)
        await asyncio.sleep(2 * self._poll_seconds)
        task = self.loop.create_task(self._settle_on())
        try:
            yield
        finally:
            task.cancel()
            told.tell(SettleState.STARTING)
            with suppress(asyncio.CancelledError):
                await task

    async def _settle_on(self) -> None:
        while True:
            await asyncio.sleep(self._dice.choice((0.01, 0.1, 0.4)))
            self.settle()

    def settle(self) -> None:
        """Carry all that is in the journal into ``messages``."""
        tail = JournalTail(str(self.root / "journal"))
        marks = self._settled.refresh().watermarks
        new = [row for rows in rows_above(tail, tail.refresh(), marks) for row in rows.rows()]
        self.tables.rows += new
        self.tables.settle()

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:022d}"
