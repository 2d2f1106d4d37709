"""The right to be a store's one settle job: the kernel's lock on a folder, a lease in an object store.

Who finds an object store taken stands by until its settle job ends, dies or is cut off. Who finds a folder taken is
refused, or stands by where that is asked for: until the process ends, however it ends; one that is merely stopped keeps
its lock. That nothing is settled twice is the affair of the epoch in each commit.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.log import log
from delta_store.storage.lease import SETTLE_LEASE, open_lease
from delta_store.storage.store_lock import settle_lock


@contextmanager
def settling_right(data: DataLocation, stop: Event, *, stands_by: bool = False) -> Iterator[Event]:
    """Hold the right while the block runs; yield an event that is set, with ``stop``, when it is lost.

    ``stands_by`` waits for a folder, too. Raises :class:`AlreadySettling`, ``OSError``, and :class:`StorageFailed` for
    a store that does not answer.
    """
    lost = Event()
    if data.is_local:
        lock = settle_lock(data.folder)
        if stands_by:
            lock.wait(Event(), _stand_by)
        else:
            lock.acquire()
        try:
            yield lost
        finally:
            lock.release()
        return

    def lose() -> None:
        lost.set()
        stop.set()

    owner = secrets.token_hex(8)
    with open_lease(data.uri, data.options, SETTLE_LEASE, owner=owner, clock=SystemClock()) as lease:
        lease.wait(Event(), _stand_by)
        lease.keep(lose)
        yield lost


def _stand_by(holder: str) -> None:
    log.info("standing by", holder=holder)
    sys.stdout.write(json.dumps({"answering": True, "holder": holder}) + "\n")
    sys.stdout.flush()
