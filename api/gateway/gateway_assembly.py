"""The assembly of the gateway from its stores, settings and links."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from api.core.gateway_core import GatewayCore
from api.core.hub_view import HubView
from api.gateway.branch_carry import SettleView
from api.gateway.gateway import Around, Gateway, Link, Subjects
from api.gateway.gateway_log import report
from api.gateway.gateway_reads import GatewayReads
from api.gateway.gateway_stores import Stores
from api.gateway.gateway_upkeep import GatewayUpkeep
from api.jetstream.responses import ApiAccount
from api.responder.direct_responder import Sink
from conf.clock import Clock
from conf.limits import REMOTE_COMMIT_INTERVAL_MS
from conf.settings import JournalSettings, Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.settle_state import SettleState
from delta_store.reading.store_reader import StoreReader
from delta_store.streams.account import AccountLimits
from ingest.flow.group_commit import Pace
from ingest.protocol.interest import InterestTable


class LeafSide(Link, Sink, Protocol):
    """The leaf link, on which all frames leave."""

    @property
    def interest(self) -> InterestTable:
        """The interest at the hub."""


class Links(Protocol):
    """The links to the hub."""

    @property
    def leaf(self) -> LeafSide:
        """The link on which replies leave."""

    @property
    def subjects(self) -> Subjects:
        """The subscriptions."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A gateway with its reads and upkeep."""

    gateway: Gateway
    reads: GatewayReads
    upkeep: GatewayUpkeep

    async def run(self) -> None:
        """Run all parts until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.gateway, self.reads, self.upkeep):
                tasks.create_task(part.run())


def assemble(
    stores: Stores,
    settings: Settings,
    links: Links,
    *,
    threads: Executor,
    clock: Clock,
    new_id: Callable[[], str],
) -> Assembled:
    """Assemble a gateway; ``threads`` run upkeep and commits to a slow store, ``new_id`` returns a random id."""
    leaf, chosen = links.leaf, settings.reads
    read_threads = ReadThreads(chosen.concurrency_max, timeout_seconds=chosen.timeout_seconds)
    reader = StoreReader(stores, read_threads, clock=clock)
    reads = GatewayReads(reader, leaf, concurrency=chosen.concurrency_max, drain_seconds=chosen.timeout_seconds)
    upkeep = GatewayUpkeep(
        stores.journal, stores.settled, data=stores.data, executor=threads, report=report, chosen=settings.journal
    )
    stores.catalog.account.limits = AccountLimits(**settings.limits.model_dump())
    core = GatewayCore(
        stores.catalog,
        reads,
        HubView(leaf.interest, lambda: leaf.payload_max),
        new_id=new_id,
        account=ApiAccount(horizon_seconds=settings.history.horizon_seconds, settling=lambda: upkeep.told),
        is_full=lambda: upkeep.is_full,
    )
    around = Around(
        stores.journal,
        reader,
        stores.settled,
        stores.runs,
        reads,
        leaf,
        links.subjects,
        clock,
        brake_seconds=lambda: upkeep.brake_seconds,
        warn=partial(report, "copy waits"),
        settling=SettleView(
            lambda: upkeep.told.get("state") == SettleState.SETTLING,
            lambda: stores.journal.reader.relies_on,
            upkeep.hasten,
        ),
        executor=None if stores.data.is_local else threads,
        pace=_pace(settings.journal, is_local=stores.data.is_local),
    )
    return Assembled(Gateway(core, around), reads, upkeep)


def _pace(chosen: JournalSettings, *, is_local: bool) -> Pace:
    default_ms = 0.0 if is_local else REMOTE_COMMIT_INTERVAL_MS
    interval_ms = default_ms if chosen.commit_interval_ms is None else chosen.commit_interval_ms
    return Pace(
        interval_ms / 1000,
        lone_waits=chosen.commit_interval_ms is not None,
        rows=chosen.commit_rows,
        bytes=chosen.commit_bytes,
    )
