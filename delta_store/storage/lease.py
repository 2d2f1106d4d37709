"""Leases in an object store, where no lock of a kernel reaches: which gateway, and which settle job, is alive.

A lease is a small object that its holder replaces once a second, each time on the condition that nobody else has. Who
waits for it takes it when it has not changed for a while by the waiter's own clock; times of two machines are never
compared. A lease fences nothing: a holder that slept may still try to commit, and is refused by the epochs of the log.
"""

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from conf.clock import Clock
from conf.data_location import DataLocation
from conf.limits import (
    LEASE_BEAT_SECONDS,
    LEASE_POLL_SECONDS,
    LEASE_QUIET_SECONDS,
    LEASE_REQUEST_SECONDS,
    LEASE_RETRY_SECONDS,
)
from delta_store.storage.object_store import first_line, open_object_store
from delta_store.values.journal_errors import StorageFailed

if TYPE_CHECKING:
    from obstore import UpdateVersion

GATEWAY_LEASE: Final = "gateway"
SETTLE_LEASE: Final = "settle"
FOLDER: Final = "leases"
"""Folder of the leases, beside the tables."""
_PROC: Final = Path("/proc")
_ENDED: Final = "ZX"
"""States of a process that has ended, and whose parent has not asked how."""
_HERE: Final = ("boot", "space")
"""What processes of one machine and one container have in common."""


class LeaseLost(Exception):
    """Another process has the lease: this one was taken for dead."""


class LeaseRead(NamedTuple):
    """A lease as it was read or written."""

    said: Mapping[str, Any]
    version: "UpdateVersion"


class LeaseObject:
    """The object of a lease. Raises :class:`StorageFailed`."""

    def __init__(self, url: str, options: Mapping[str, str], name: str) -> None:
        self._store = open_object_store(f"{url}/{FOLDER}", options, retries=0, timeout=f"{LEASE_REQUEST_SECONDS:g}s")
        self._name = f"{name}.json"
        self.place = f"{url}/{FOLDER}/{self._name}"

    def read(self) -> LeaseRead | None:
        """Return the lease; None when there is none."""
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            found = obstore.get(self._store, self._name)
            body, version = bytes(found.bytes()), _version(found.meta)
        except (NotFoundError, FileNotFoundError):
            return None
        except (BaseError, OSError) as error:
            raise StorageFailed(self.place, first_line(error)) from error
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        return LeaseRead(said if isinstance(said, dict) else {}, version)

    def put(self, said: Mapping[str, Any], before: LeaseRead | None) -> LeaseRead | None:
        """Write the lease if it is still as it was ``before``; None when it is not."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

        mode: Any = "create" if before is None else before.version
        try:
            done = obstore.put(self._store, self._name, json.dumps(said).encode(), mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError, PreconditionError):
            return None
        except (BaseError, OSError) as error:
            if before is not None and isinstance(error, NotFoundError | FileNotFoundError):
                return None
            raise StorageFailed(self.place, first_line(error)) from error
        return LeaseRead(said, _version(done))


class Lease:
    """One process's part in a lease: it waits, holds and releases. Used by one thread, but for the renewing one."""

    def __init__(self, place: LeaseObject, *, owner: str, clock: Clock) -> None:
        """``owner`` must differ from process to process."""
        self._place, self._clock = place, clock
        self._who = {"owner": owner, "host": socket.gethostname(), **_process(os.getpid())}
        self._beat = 0
        self._held: LeaseRead | None = None
        self._seen: Mapping[str, Any] = {}
        self._seen_at = 0.0
        self._sure_at = 0.0
        """When the request began that last changed the lease: those who wait count from its landing."""
        self._ended = Event()
        self._thread: Thread | None = None

    @property
    def holder(self) -> str:
        """Who had the lease at the last attempt, for messages."""
        return f"process {self._seen.get('pid', '?')} on {self._seen.get('host', '?')}"

    @property
    def doubt_seconds(self) -> float:
        """Seconds since the held lease was changed last; another process may take it at ``LEASE_QUIET_SECONDS``."""
        return self._clock.monotonic() - self._sure_at

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt: no longer than until the lease may be taken."""
        left = self._seen_at + LEASE_QUIET_SECONDS - self._clock.monotonic()
        return left if 0 < left < LEASE_POLL_SECONDS else LEASE_POLL_SECONDS

    def attempt(self) -> bool:
        """Take the lease if it is free, released, or has been quiet for long; return whether it is held.

        Raises :class:`StorageFailed`.
        """
        began, found = self._clock.monotonic(), self._place.read()
        if found is not None and found.said.get("owner") == self._who["owner"]:  # a reply was lost
            self._held = found
        elif found is None or self._is_free(found.said):
            self._held, self._sure_at = self._place.put(self._next(), found), began
        return self._held is not None

    def wait(self, stop: Event, told: Callable[[str], None]) -> bool:
        """Wait for the lease; return False when ``stop`` is set first. ``told`` gets the holder when waiting begins.

        Raises :class:`StorageFailed` when the store has not answered once; later on it is waited for, too.
        """
        if self.attempt():
            return True
        told(self.holder)
        while not stop.wait(self.pause_seconds):
            with suppress(StorageFailed):
                if self.attempt():
                    return True
        return False

    def keep(self, lost: Callable[[], None]) -> None:
        """Renew the held lease in a thread until :meth:`release`; call ``lost`` there if another process takes it."""
        assert self._held is not None
        self._thread = Thread(target=self._keep, args=(lost,), name="lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Stop renewing; a lease that is held still is given free for the next. Idempotent."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(4 * LEASE_REQUEST_SECONDS)
        if self._held is not None:
            with suppress(StorageFailed):
                self._place.put({**self._who, "released": True}, self._held)
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _keep(self, lost: Callable[[], None]) -> None:
        pause = LEASE_BEAT_SECONDS
        while not self._ended.wait(pause):
            pause = LEASE_RETRY_SECONDS
            with suppress(StorageFailed):
                if not self._renew():
                    lost()
                    return
                pause = LEASE_BEAT_SECONDS

    def _renew(self) -> bool:
        """Renew the lease; return False when another process has it."""
        began = self._clock.monotonic()
        self._held = self._place.put(self._next(), self._held)
        if self._held is None:
            found = self._place.read()
            if found is None:
                self._held = self._place.put(self._next(), None)
            elif found.said.get("owner") == self._who["owner"]:
                self._held = found
                return True  # it may be a beat of long ago: only the next one makes sure
        self._sure_at = began
        return self._held is not None

    def _next(self) -> dict[str, Any]:
        self._beat += 1
        return {**self._who, "beat": self._beat}

    def _is_free(self, said: Mapping[str, Any]) -> bool:
        """Whether the holder has released it, is a dead process of this machine, or has been quiet for long."""
        now = self._clock.monotonic()
        if said != self._seen:
            self._seen, self._seen_at = said, now
        return bool(said.get("released")) or _is_dead(said) or now - self._seen_at >= LEASE_QUIET_SECONDS


class LeaseTaken(Exception):
    """Another process has the lease, and renews it."""


@contextmanager
def exclusive(data: DataLocation, name: str, clock: Clock) -> Iterator[None]:
    """Hold a lease while the block runs; a holder that is quiet is waited for. Who takes it meanwhile fences the block.

    Raises :class:`LeaseTaken` and :class:`StorageFailed`.
    """
    given_up = clock.monotonic() + LEASE_QUIET_SECONDS + 2 * LEASE_BEAT_SECONDS
    with open_lease(data.uri, data.options, name, owner=secrets.token_hex(8), clock=clock) as lease:
        while not lease.attempt():
            if clock.monotonic() > given_up:
                raise LeaseTaken(f"{data} is in use by {lease.holder}: stop it first")
            Event().wait(lease.pause_seconds)
        lease.keep(lambda: None)
        yield


def open_lease(url: str, options: Mapping[str, str], name: str, *, owner: str, clock: Clock) -> Lease:
    """Return a lease of the store at ``url``, not held yet."""
    return Lease(LeaseObject(url, options, name), owner=owner, clock=clock)


def _version(meta: Any) -> "UpdateVersion":
    version: Any = {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}
    found: UpdateVersion = version
    return found


def _process(pid: int) -> dict[str, Any]:
    """Return what tells a process from all others: of other machines, other containers, and later ones of its id.

    Only the id where the system does not tell the rest.
    """
    told: dict[str, Any] = {"pid": pid}
    with suppress(OSError, IndexError, ValueError):
        told["boot"] = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        told["space"] = (_PROC / "self/ns/pid").stat().st_ino
        state, *others = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        if state not in _ENDED:
            told["started"] = int(others[18])
    return told


def _is_dead(said: Mapping[str, Any]) -> bool:
    """Whether a lease's holder is known to have ended: it ran here, and no such process does."""
    here, pid = _process(os.getpid()), said.get("pid")
    if "started" not in here or not isinstance(pid, int) or any(said.get(name) != here[name] for name in _HERE):
        return False
    return _process(pid).get("started") != said.get("started")
