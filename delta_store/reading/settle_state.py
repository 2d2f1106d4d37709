"""The settle job's state for other processes: a small file beside the tables, rewritten every few seconds.

It may be lost at any time: only reports depend on it. On an object store the job may run on a machine with another
clock, so its silence is told by what does not change, not by the time that it wrote.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, NamedTuple, Self

from conf.clock import Clock
from conf.error_text import error_text
from conf.limits import SETTLE_HEARTBEAT_SECONDS
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import StorageError

FILE: Final = "settle-state.json"
_SILENT_BEATS: Final = 6


class SettleState(StrEnum):
    """States of the settle job, for logs and APIs; append only."""

    STARTING = "starting"
    """Spark is starting."""
    SETTLING = "settling"
    """The query is running."""
    FAILING = "failing"
    """The query ended with an error and is being restarted."""
    SILENT = "not running"
    """No heartbeat for half a minute, or never."""


class SettleNews(NamedTuple):
    """The state, with the error of a failing job."""

    state: SettleState
    error: str = ""


class StateTeller:
    """The writer of the state, which repeats it every few seconds until the block ends."""

    def __init__(self, location: Path | str, clock: Clock, *, storage_options: Mapping[str, str] | None = None) -> None:
        """``location`` is the data folder or URL."""
        self._file, self._clock = _StateFile(str(location), storage_options), clock
        self._news = SettleNews(SettleState.STARTING)
        self._lock, self._ended = Lock(), Event()
        self._thread = Thread(target=self._beat, name="settle-state", daemon=True)

    def __enter__(self) -> Self:
        self.tell(SettleState.STARTING)
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self.tell(SettleState.FAILING, error_text(error).partition("\n")[0])
        self._ended.set()
        self._thread.join(SETTLE_HEARTBEAT_SECONDS)

    def tell(self, state: SettleState, error: str = "") -> None:
        """Set the state."""
        with self._lock:
            self._news = SettleNews(state, error)
            self._write()

    def _beat(self) -> None:
        while not self._ended.wait(SETTLE_HEARTBEAT_SECONDS):
            with self._lock:
                self._write()

    def _write(self) -> None:
        said = {"state": self._news.state.value, "error": self._news.error, "at_ns": self._clock.now_ns()}
        with suppress(OSError, StorageError):  # a full disk must not end the settling that would empty it
            self._file.write(json.dumps(said).encode())


class StateListener:
    """The reader of the state. Not thread-safe."""

    def __init__(self, location: str, clock: Clock, *, storage_options: Mapping[str, str] | None = None) -> None:
        """``location`` is the data folder or URL."""
        self._file, self._clock = _StateFile(location, storage_options), clock
        self._said = b""
        self._changed_at = 0.0

    def news(self) -> SettleNews:
        """Return the job's last state. Blocks."""
        try:
            body = self._file.read()
            said = json.loads(body)
            news = SettleNews(SettleState(said["state"]), str(said["error"]))
            silent = self._quiet_seconds(body, int(said["at_ns"])) > _SILENT_BEATS * SETTLE_HEARTBEAT_SECONDS
        except (OSError, StorageError, ValueError, KeyError, TypeError):
            return SettleNews(SettleState.SILENT)
        return SettleNews(SettleState.SILENT, news.error) if silent else news

    def _quiet_seconds(self, body: bytes, at_ns: int) -> float:
        """Return for how long the job has said nothing; at the first look, and on a local disk, by its own time."""
        age = (self._clock.now_ns() - at_ns) / 1e9
        if self._file.is_local:
            return age
        now = self._clock.monotonic()
        if body != self._said:
            self._changed_at = now if self._said else now - age
            self._said = body
        return now - self._changed_at


class _StateFile:
    """The file with the state; replaced as a whole, and never fsynced."""

    def __init__(self, location: str, options: Mapping[str, str] | None) -> None:
        self.is_local = "://" not in location
        self._path = Path(location, FILE)
        self._storage = None if self.is_local else open_storage(location, options)

    def read(self) -> bytes:
        return self._path.read_bytes() if self._storage is None else self._storage.read(FILE)

    def write(self, body: bytes) -> None:
        if self._storage is not None:
            self._storage.write(Blob(FILE, body))
            return
        new = self._path.with_suffix(".tmp")
        new.write_bytes(body)
        new.replace(self._path)
