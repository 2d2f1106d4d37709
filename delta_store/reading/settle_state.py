"""The settle job's state for other processes: a small file beside the tables, rewritten every few seconds.

It may be lost at any time: only reports depend on it.
"""

import json
from enum import StrEnum
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, NamedTuple, Self

from conf.clock import Clock
from conf.error_text import error_text
from conf.limits import SETTLE_HEARTBEAT_SECONDS

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

    def __init__(self, data: Path, clock: Clock) -> None:
        self._path, self._clock = data / FILE, clock
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
        new = self._path.with_suffix(".tmp")
        try:
            new.write_text(json.dumps(said))
            new.replace(self._path)
        except OSError:  # a full disk must not end the settling that would empty it
            return


def settle_news(data: Path, now_ns: int) -> SettleNews:
    """Return the last state of a local data folder's settle job."""
    try:
        said = json.loads((data / FILE).read_text())
        silent = now_ns - int(said["at_ns"]) > _SILENT_BEATS * SETTLE_HEARTBEAT_SECONDS * 1e9
        news = SettleNews(SettleState(said["state"]), str(said["error"]))
    except (OSError, ValueError, KeyError, TypeError):
        return SettleNews(SettleState.SILENT)
    return SettleNews(SettleState.SILENT, news.error) if silent else news
