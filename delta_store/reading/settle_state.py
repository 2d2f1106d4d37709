"""What the settle job says of itself, for every other process: a small file beside the tables, written again and again.

It may be lost at any time: nothing but reports rests on it.
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
    """Names for logs and APIs; only ever added to."""

    STARTING = "starting"
    """Spark starts."""
    SETTLING = "settling"
    """The query runs."""
    FAILING = "failing"
    """It ended with an error and is tried again."""
    SILENT = "not running"
    """It has not been heard of for half a minute, or never."""


class SettleNews(NamedTuple):
    """The state and, when it is failing, why."""

    state: SettleState
    error: str = ""


class StateTeller:
    """Writes the state, and again every few seconds, until the block ends."""

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
        """From now on it is this."""
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
    """What the settle job of a local data folder last said."""
    try:
        said = json.loads((data / FILE).read_text())
        silent = now_ns - int(said["at_ns"]) > _SILENT_BEATS * SETTLE_HEARTBEAT_SECONDS * 1e9
        news = SettleNews(SettleState(said["state"]), str(said["error"]))
    except (OSError, ValueError, KeyError, TypeError):
        return SettleNews(SettleState.SILENT)
    return SettleNews(SettleState.SILENT, news.error) if silent else news
