"""The right to be a store's one gateway: the kernel's lock on a folder, a lease in an object store.

Who finds a folder taken is refused; who finds an object store taken stands by until its gateway ends, dies or is cut
off. A lost lease ends the process; that nothing is acknowledged by two is the journal's epoch's affair.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress

from api.gateway.gateway_opening import say
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.limits import LEASE_DOUBT_SECONDS, LEASE_LOOK_SECONDS
from conf.log import log
from delta_store.storage.lease import GATEWAY_LEASE, Lease, LeaseLost, open_lease
from delta_store.storage.store_lock import FolderLock, store_lock


class StoreOwnership:
    """One gateway's right to a store; belongs to one event loop."""

    def __init__(self, data: DataLocation) -> None:
        self._data = data
        self._lock: FolderLock | None = None
        self._lease: Lease | None = None
        self._lost = asyncio.Event()

    async def take(self, stop: asyncio.Event) -> bool:
        """Become the owner; return False when ``stop`` is set first.

        Raises :class:`StoreLocked`, ``OSError``, and :class:`StorageFailed` for a store that does not answer.
        """
        if self._data.is_local:
            self._lock = store_lock(self._data.folder)
            self._lock.acquire()
            return True
        owner = secrets.token_hex(8)
        lease = open_lease(self._data.uri, self._data.options, GATEWAY_LEASE, owner=owner, clock=SystemClock())
        loop = asyncio.get_running_loop()
        stopped = threading.Event()
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(stop.wait())
            stopping.add_done_callback(lambda _: stopped.set())
            taken = await loop.run_in_executor(None, lease.wait, stopped, _stand_by)
            stopping.cancel()
        if taken:
            self._lease = lease
            lease.keep(lambda: _set(loop, self._lost))
        return taken

    async def watch(self, allow: Callable[[bool], None]) -> None:
        """Wait until the right is lost, and raise :class:`LeaseLost`.

        ``allow`` is told whether clients may be answered: not while another gateway may have taken over unheard.
        """
        while not self._lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE_LOOK_SECONDS):
                    await self._lost.wait()
            if self._lease is not None:
                allow(self._lease.doubt_seconds < LEASE_DOUBT_SECONDS)
        raise LeaseLost(f"another gateway has taken {self._data} over")

    def give_up(self) -> None:
        """End the right, so that the next may take it at once. Blocks."""
        if self._lock is not None:
            self._lock.release()
        if self._lease is not None:
            self._lease.release()


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from another thread; the loop may have ended meanwhile."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)


def _stand_by(holder: str) -> None:
    """Say that another gateway has the store; the supervisor takes it for an opening that lasts."""
    log.info("standing by", holder=holder)
    say({"answering": True, "opening": f"another gateway has the store ({holder}), this one stands by"})
