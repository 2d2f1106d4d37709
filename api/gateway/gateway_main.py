"""The gateway process: ``python -m api.gateway.gateway_main --nats URL --leaf URL --data DIR``.

May be started before the NATS server and never starts a JVM. Prints ``{"ready": true, …}`` when it is attached and its
streams are open. Ends with status 0 on SIGTERM or SIGINT after draining, 1 on an error that it names, 2 on wrong
usage, 3 when another gateway has the folder or took it over.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import secrets
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.core.core_parts import Hub
from api.core.gateway_core import GatewayCore
from api.gateway.gateway import Around, Gateway
from api.gateway.gateway_log import report, report_link
from api.gateway.gateway_reads import GatewayReads, ReadStore
from api.gateway.gateway_subjects import LinkSubjects
from api.gateway.gateway_upkeep import GatewayUpkeep
from api.process.error_leaves import leaves
from api.process.process_arguments import add_data_argument, add_nats_arguments, settings_under
from api.responder import nats_access
from conf.clock import SystemClock
from conf.error_text import error_text
from conf.exit_codes import Exit
from conf.limits import GATEWAY_DRAIN_SECONDS
from conf.settings import Settings
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import SHARD
from delta_store.reading.arrow_start import without_pandas
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadThreads
from delta_store.reading.settled import SettledTable
from delta_store.storage.open_storage import open_storage
from delta_store.storage.store_lock import StoreLock, StoreLocked
from delta_store.stores.own_journal import OwnJournal
from delta_store.stores.stores_open import open_stores, refuse_apart, refuse_lost_journal
from delta_store.streams.catalog import Catalog
from delta_store.values.journal_errors import Fenced, JournalDamaged, JournalError, JournalPoisoned
from delta_store.values.read_errors import DamagedData, ReadError
from ingest.flow.group_commit import Pace
from ingest.links.behind_interest import BehindInterest
from ingest.links.leaf_link import LeafLink, LeafOptions
from ingest.links.leaf_session import OnMessages
from ingest.protocol.leaf_connect import LeafIdentity
from ingest.protocol.link import LinkStatus, OnStatus, parse_endpoints
from ingest.protocol.payload_limit import Oversize

if TYPE_CHECKING:
    from ingest.links.client_link import ClientLink

GC_YOUNG_OBJECTS = 100_000
"""Allocations between two passes of the cyclic garbage collector over young objects."""

GIL_SWITCH_SECONDS = 0.0005
"""How long a thread that decodes files may keep the event loop waiting: Python's own 5 ms would hold up deliveries."""


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """What the command line says."""

    nats: str
    leaf: str
    data: str
    domain: str
    api_over_leaf: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; returns the exit status."""
    options, settings = parse(arguments)
    without_pandas()
    lock = StoreLock(Path(options.data))
    try:
        lock.acquire()
        _run(_serve(options, settings))
    except (StoreLocked, JournalError, ReadError, OSError, ValueError) as error:
        return _ended_by(error)
    except ExceptionGroup as group:
        known = group.subgroup((JournalError, ReadError, TimeoutError))
        if known is None:
            raise
        return _ended_by(next(leaves(known)))
    finally:
        lock.release()
    return 0


def _ended_by(error: Exception) -> int:
    """Say why the process ends; its exit status."""
    hint = "; run: silt verify" if isinstance(error, DamagedData | JournalDamaged) else ""
    sys.stderr.write(f"silt gateway: {error_text(error)}{hint}\n")
    taken = isinstance(error, StoreLocked | Fenced) or (
        isinstance(error, JournalPoisoned) and isinstance(error.cause, Fenced)
    )
    return Exit.IN_USE if taken else Exit.FAILED


def parse(arguments: Sequence[str] | None) -> tuple[GatewayOptions, Settings]:
    """Read the command line and the settings under it; exits with status 2 when either is wrong."""
    parser = argparse.ArgumentParser(prog="silt gateway", description="Join a NATS server and serve its JetStream API.")
    add_data_argument(parser)
    add_nats_arguments(parser)
    given = parser.parse_args(arguments)
    settings = settings_under(parser, given)
    nats = settings.nats
    return GatewayOptions(
        nats.url, nats.leaf_url, str(given.data), nats.domain or "", nats.api_over == "leaf"
    ), settings


def _run(main_task: Any) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main_task)
    else:
        uvloop.run(main_task)


async def _serve(options: GatewayOptions, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with ThreadPoolExecutor(max_workers=settings.reads.concurrency_max + 2, thread_name_prefix="store") as threads:
        assembly = await loop.run_in_executor(threads, _open, options, settings)
        # Messages are tuples of bytes, which make no cycles: passes over a million of them would only cost pauses.
        sys.setswitchinterval(GIL_SWITCH_SECONDS)
        gc.freeze()
        gc.set_threshold(GC_YOUNG_OBJECTS, 50, 100)
        await _Process(options, settings, assembly, threads).run(stop)


@dataclass(frozen=True, slots=True)
class Stores:
    """The open tables and the state rebuilt from them."""

    journal: Journal
    settled: SettledTable
    payloads: Payloads
    tail: JournalTail
    catalog: Catalog
    local: bool


def _open(options: GatewayOptions, settings: Settings) -> Stores:
    """Claim the journal (which fences any other owner), then rebuild the state. Blocks."""
    root = options.data.rstrip("/")
    clock = SystemClock()
    tail = JournalTail(f"{root}/journal")
    settled = SettledTable(f"{root}/messages", cache_bytes=settings.reads.cache_bytes_max, relied_on=tail.relies_on)
    storage = open_storage(f"{root}/journal")
    refuse_lost_journal(storage, settled)
    journal = Journal.open(storage, shard=SHARD, clock=clock)
    journal.claim()
    tail.follow(journal)
    payloads = Payloads(settled, OwnJournal(journal), tail_bytes=settings.reads.cache_bytes_max)
    opened = open_stores(settled, tail, domain=options.domain, newest=payloads.tail)
    refuse_apart(journal, opened)
    return Stores(journal, settled, payloads, tail, opened.catalog, "://" not in root)


class _Process:
    """Everything of the running gateway, wired together."""

    def __init__(
        self, options: GatewayOptions, settings: Settings, stores: Stores, threads: ThreadPoolExecutor
    ) -> None:
        self._stores = stores
        name = f"silt-gateway-{secrets.token_hex(4)}"
        # Timing jitter of reconnects needs no unpredictable numbers.
        jitter = random.Random()  # noqa: S311
        self.leaf = _leaf_link(options, settings, name, jitter, (self._receive, self._leaf_status))
        self.requests = BehindInterest(self.leaf, self._receive)
        self.client = self.requests.client = _client_link(options, settings, name, self.requests.take, jitter)
        clock = SystemClock()
        self.subjects = LinkSubjects(self.leaf, self.client, options.domain)
        threads_of_reads = ReadThreads(settings.reads.concurrency_max, timeout_seconds=settings.reads.timeout_seconds)
        self.reads = GatewayReads(
            ReadStore(stores.catalog, stores.payloads, PointInTime(stores.settled, stores.tail)),
            self.leaf,
            threads_of_reads,
            concurrency=settings.reads.concurrency_max,
            drain_seconds=settings.reads.timeout_seconds,
        )
        table = Path(options.data, "messages") if stores.local else None
        self.upkeep = upkeep = GatewayUpkeep(
            stores.journal, stores.settled, table=table, executor=threads, report=report, chosen=settings.journal
        )
        core = GatewayCore(
            stores.catalog,
            self.reads,
            Hub(self.leaf.interest, lambda: self.leaf.payload_max),
            new_id=_new_id,
            settling=lambda: upkeep.told,
            is_full=lambda: upkeep.is_full,
        )
        around = Around(
            stores.journal,
            stores.payloads,
            self.reads,
            threads_of_reads,
            self.leaf,
            self.subjects,
            clock,
            brake_seconds=lambda: upkeep.brake_seconds,
            warn=partial(report, "copy waits"),
            executor=None if stores.local else threads,
            pace=_pace(settings),
        )
        self.gateway = Gateway(core, around)
        self.leaf.interest.on_change = self.gateway.interest

    def _leaf_status(self, status: LinkStatus) -> None:
        report_link("leaf")(status)
        self.gateway.reachable(status.attached)

    def _receive(self, run: list[Any]) -> None:
        try:
            self.gateway.receive(run)
        except Exception:  # noqa: BLE001  # whatever it is
            # Memory and rows may differ from here on: nothing more may leave, and only a new start finds the truth.
            report("stopped amid a decision", traceback.format_exc())
            os._exit(1)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain."""
        self.gateway.reachable(False)
        self.gateway.restore()
        self.subjects.follow_api()
        async with asyncio.TaskGroup() as tasks:
            parts = (self.leaf, self.gateway, self.reads, self.upkeep)
            running = [tasks.create_task(part.run()) for part in parts]
            if self.client is not None:
                running += [tasks.create_task(self.client.run()), tasks.create_task(self.requests.run())]
            ready = tasks.create_task(self._say_ready())
            await stop.wait()
            ready.cancel()
            await self._drain()
            for task in running:
                task.cancel()

    async def _say_ready(self) -> None:
        await self.leaf.attached.wait()
        if self.client is not None:
            await self.client.attached.wait()
        self.gateway.call_back()
        said = {"ready": True, "epoch": self._stores.journal.epoch, "streams": len(self._stores.catalog.streams)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()

    async def _drain(self) -> None:
        """Take in nothing more, commit and answer what was taken."""
        try:
            async with asyncio.timeout(GATEWAY_DRAIN_SECONDS):
                self.gateway.stop_copying()
                self.subjects.unfollow_all()
                if self.client is not None and self.client.attached.is_set():
                    await self.client.flush(GATEWAY_DRAIN_SECONDS)
                if self.leaf.attached.is_set():
                    await self.leaf.flush(GATEWAY_DRAIN_SECONDS)
                await self.gateway.wind_up(GATEWAY_DRAIN_SECONDS)
                if self.leaf.attached.is_set():
                    await self.leaf.flush(GATEWAY_DRAIN_SECONDS)
        except (TimeoutError, OSError) as error:
            report("drain incomplete", str(error) or "timed out")


def _leaf_link(
    options: GatewayOptions, settings: Settings, name: str, jitter: random.Random, on: tuple[OnMessages, OnStatus]
) -> LeafLink:
    nats = settings.nats
    leaf_options = LeafOptions(
        parse_endpoints(options.leaf, default_port=7422),
        LeafIdentity(name, name, options.domain),
        nats_access.leaf_credentials(nats),
        nats_access.tls(nats),
        connect_timeout_seconds=nats.connect_timeout_seconds,
    )
    receive, on_status = on
    link = LeafLink(leaf_options, receive, jitter=jitter, on_status=on_status)
    link.on_oversize = _report_oversize
    return link


def _client_link(
    options: GatewayOptions, settings: Settings, name: str, receive: Callable[[list[Any]], None], jitter: random.Random
) -> "ClientLink | None":
    """None where the leaf link takes everything."""
    if options.api_over_leaf or options.domain:
        return None
    from ingest.links.client_link import ClientLink, ClientOptions

    endpoints = parse_endpoints(options.nats, default_port=4222)
    client_options = ClientOptions(
        endpoints,
        name,
        nats_access.credentials(settings.nats),
        nats_access.tls(settings.nats),
        connect_timeout_seconds=settings.nats.connect_timeout_seconds,
    )
    return ClientLink(client_options, receive, jitter=jitter, on_status=report_link("client"))


def _pace(settings: Settings) -> Pace:
    journal = settings.journal
    return Pace(journal.commit_interval_ms / 1000, journal.commit_rows, journal.commit_bytes)


def _new_id() -> str:
    return secrets.token_hex(11)


def _report_oversize(one: Oversize) -> None:
    report("message too large for the hub", f"{one.size} bytes to {one.subject.decode(errors='replace')}")


if __name__ == "__main__":
    sys.exit(main())
