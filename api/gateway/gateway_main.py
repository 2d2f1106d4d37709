"""The gateway process: ``python -m api.gateway.gateway_main --nats URL --leaf URL --data DIR``.

It may be started before the NATS server and never starts a JVM. It attaches first, then opens its store. It prints
``{"ready": true, …}`` when it is attached and its streams are open and, if opening takes long, before that
``{"answering": true, …}`` when the API answers with the progress. It ends with status 0 on SIGTERM or SIGINT after
draining, 1 on an error, which it names, 2 on wrong usage, 3 when another gateway has the folder or took it over.
"""

import asyncio
import gc
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from api.gateway.gateway_assembly import assemble
from api.gateway.gateway_links import GatewayLinks
from api.gateway.gateway_log import report
from api.gateway.gateway_opening import GatewayOpening, say
from api.gateway.gateway_options import GatewayOptions, parse
from api.gateway.gateway_stores import Stores, claim_stores
from api.gateway.store_ownership import StoreOwnership
from api.process.error_leaves import leaves
from conf.clock import SteadyClock, SystemClock
from conf.error_text import error_text
from conf.exit_codes import Exit
from conf.limits import GATEWAY_DRAIN_SECONDS
from conf.log import configure_log
from conf.settings import Settings
from delta_store.reading.arrow_start import without_pandas
from delta_store.storage.lease import LeaseLost
from delta_store.storage.store_lock import StoreLocked
from delta_store.values.journal_errors import Fenced, JournalError, JournalPoisoned
from delta_store.values.read_errors import DamagedData, ReadError
from ingest.protocol.link import LinkStatus

GC_YOUNG_OBJECTS = 100_000
"""Allocations between two passes of the cyclic garbage collector over young objects."""

GIL_SWITCH_SECONDS = 0.0005
"""Longest time a decoding thread keeps the event loop waiting; Python's default of 5 ms would delay deliveries."""


REFUSED = (JournalError, ReadError, OSError, ValueError)
"""Errors of opening a store that end the process with one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; return the exit status."""
    options, settings = parse(arguments)
    configure_log("gateway")
    without_pandas()
    try:
        _run(_serve(options, settings))
    except (StoreLocked, *REFUSED) as error:
        return _ended_by(error)
    except ExceptionGroup as group:
        known = group.subgroup((JournalError, ReadError, LeaseLost, TimeoutError))
        if known is None:
            raise
        return _ended_by(next(leaves(known)))
    return 0


def _ended_by(error: Exception) -> int:
    """Print the error that ends the process; return its exit status."""
    hint = "; run: silt verify" if isinstance(error, DamagedData) else ""
    sys.stderr.write(f"silt gateway: {error_text(error)}{hint}\n")
    taken = isinstance(error, StoreLocked | LeaseLost | Fenced) or (
        isinstance(error, JournalPoisoned) and isinstance(error.cause, Fenced)
    )
    return Exit.IN_USE if taken else Exit.FAILED


def _run(main_task: Any) -> None:
    """Run on uvloop, if it is installed."""
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
    sys.setswitchinterval(GIL_SWITCH_SECONDS)
    ownership = StoreOwnership(options.data)
    try:
        if await ownership.take(stop):
            await _own(options, settings, ownership, stop)
    finally:
        ownership.give_up()


async def _own(options: GatewayOptions, settings: Settings, ownership: StoreOwnership, stop: asyncio.Event) -> None:
    """Serve as the store's owner until ``stop`` is set."""
    links = GatewayLinks(options, settings)
    opening = GatewayOpening(links, domain=options.domain, clock=SystemClock())
    failure: Exception | None = None
    with ThreadPoolExecutor(max_workers=settings.reads.concurrency_max + 2, thread_name_prefix="store") as threads:
        async with asyncio.TaskGroup() as tasks:
            others = tasks.create_task(links.run()), tasks.create_task(ownership.watch(links.allow))
            try:
                stores = await opening.run(partial(claim_stores, options, settings), threads, stop)
            except REFUSED as error:
                failure, stores = error, None
            if stores is not None:
                # Messages are tuples of bytes, which form no cycles: passes over them only cause pauses.
                gc.freeze()
                gc.set_threshold(GC_YOUNG_OBJECTS, 50, 100)
                took = {"rows": opening.progress.rows_total, "seconds": opening.seconds}
                await _Process(settings, stores, links, threads).run(stop, took)
            for task in others:
                task.cancel()
    if failure is not None:
        raise failure


class _Process:
    """The running gateway with its links."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        links: GatewayLinks,
        threads: ThreadPoolExecutor,
    ) -> None:
        self._stores = stores
        self._links = links
        self.leaf = links.leaf
        self._parts = assemble(
            stores, settings, links, threads=threads, clock=SteadyClock(), new_id=partial(secrets.token_hex, 11)
        )
        self.gateway = self._parts.gateway

    def _leaf_status(self, status: LinkStatus) -> None:
        self.gateway.reachable(status.attached)

    def _receive(self, run: list[Any]) -> None:
        try:
            self.gateway.receive(run)
        except Exception:  # noqa: BLE001  # any error ends the process
            # Memory and rows may differ from here on: nothing more may leave, and only a restart restores the state.
            report("stopped amid a decision", traceback.format_exc())
            os._exit(1)

    async def run(self, stop: asyncio.Event, took: Mapping[str, float]) -> None:
        """Serve until ``stop`` is set, then drain; ``took`` has rows and seconds of opening, for the ready line."""
        async with asyncio.TaskGroup() as tasks:
            parts = tasks.create_task(self._parts.run())
            self._take_over()
            ready = tasks.create_task(self._say_ready(took))
            await stop.wait()
            ready.cancel()
            await self._drain()
            parts.cancel()

    def _take_over(self) -> None:
        """Receive the links' messages from here on, and apply the interest and status that they know."""
        self.gateway.reachable(False)
        # Streams are followed first: a client with a reply of the API finds them subscribed.
        self.gateway.restore()
        self._links.receive, self._links.on_leaf_status = self._receive, self._leaf_status
        self._leaf_status(self.leaf.status)
        self.leaf.interest.tell(self.gateway.interest)
        self._links.subjects.follow_api()

    async def _say_ready(self, took: Mapping[str, float]) -> None:
        await self._links.heard()
        self.gateway.call_back()
        await self._links.reachable()
        said = {"ready": True, "epoch": self._stores.journal.epoch, "streams": len(self._stores.catalog.streams)}
        say({**said, **took})

    async def _drain(self) -> None:
        """End all subscriptions, then commit and answer everything received."""
        try:
            async with asyncio.timeout(GATEWAY_DRAIN_SECONDS):
                self.gateway.stop_copying()
                self._links.subjects.unfollow_all()
                await self._links.flush(GATEWAY_DRAIN_SECONDS)
                await self.gateway.wind_up(GATEWAY_DRAIN_SECONDS)
                if self.leaf.attached.is_set():
                    await self.leaf.flush(GATEWAY_DRAIN_SECONDS)
        except (TimeoutError, OSError) as error:
            report("drain incomplete", str(error) or "timed out")


if __name__ == "__main__":
    sys.exit(main())
