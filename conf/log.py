"""What a process says about itself: one JSON object a line, with the same fields in every process.

``at`` (UTC, to the millisecond), ``level`` (``info``, ``warning`` or ``error``), ``process``, ``event`` (the same few
words each time), and then what belongs to the event. On a terminal it is a line of text instead.
"""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from conf.clock import Clock, SystemClock


class Log:
    """Takes what happens, with what belongs to it by name; a log that can't be written stops nobody."""

    def __init__(
        self, process: str = "", *, write: Callable[[str], object] | None = None, clock: Clock | None = None
    ) -> None:
        """``write`` takes lines; by default they go to standard error."""
        self._process = process
        self._write = write
        self._clock: Clock = clock or SystemClock()

    def configure(self, process: str) -> None:
        """Say whose lines these are: ``gateway``, ``settle``, ``serve`` or ``up``."""
        self._process = process

    def info(self, event: str, **fields: object) -> None:
        """Something went as it should."""
        self._say("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something waits or was put right, and may want to be looked at."""
        self._say("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Something could not be done."""
        self._say("error", event, fields)

    def _say(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        seconds, rest = divmod(self._clock.now_ns(), 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
        with suppress(OSError):
            if self._write is None and sys.stderr.isatty():
                line = _text(moment, level, event, fields)
            else:
                said = {"at": moment.isoformat(timespec="milliseconds"), "level": level, "process": self._process}
                line = json.dumps(said | {"event": event, **fields}, default=str)
            if self._write is not None:
                self._write(line + "\n")
                return
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _text(moment: datetime, level: str, event: str, fields: Mapping[str, object]) -> str:
    shown = "".join(f"  {name}={value}" for name, value in fields.items())
    return f"{moment:%H:%M:%S} {level:7} {event}{shown}"


log: Final = Log()
"""That of this process."""
