"""What a process says about itself: one JSON object a line, with the same fields in every process.

``at`` (UTC, to the millisecond), ``level`` (``info``, ``warning`` or ``error``), ``process``, ``event`` (the same few
words each time), and then what belongs to the event. On a terminal it is a line of text instead.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from conf.clock import Clock, SystemClock

_LEVELS: Final = structlog.make_filtering_bound_logger(logging.INFO)


class _Lines:
    """Takes finished lines; one that can't be written is lost and stops nobody."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        """``write`` takes lines with their ends; by default they go to standard error."""
        self._write = write

    def msg(self, line: str) -> None:
        """Write a line."""
        with suppress(OSError):
            if self._write is not None:
                self._write(line + "\n")
            else:
                print(line, file=sys.stderr, flush=True)  # noqa: T201  # the log itself

    info = warning = error = msg


def _processors(process: str, clock: Clock, *, terminal: bool) -> Sequence[Processor]:
    def head(_logger: object, level: str, fields: EventDict) -> EventDict:
        seconds, rest = divmod(clock.now_ns(), 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
        at = f"{moment:%H:%M:%S}" if terminal else moment.isoformat(timespec="milliseconds")
        return {"at": at, "level": level, "process": process, "event": fields.pop("event"), **fields}

    if terminal:
        return [head, structlog.dev.ConsoleRenderer(timestamp_key="at", sort_keys=False)]
    return [head, structlog.processors.JSONRenderer(default=str)]


def new_log(process: str, write: Callable[[str], object], clock: Clock) -> FilteringBoundLogger:
    """A log of its own for ``process``, whose lines ``write`` takes."""
    processors = _processors(process, clock, terminal=False)
    made: FilteringBoundLogger = structlog.wrap_logger(_Lines(write), processors=processors, wrapper_class=_LEVELS)
    return made


def configure_log(process: str, clock: Clock | None = None) -> None:
    """Say whose lines :data:`log` writes: ``gateway``, ``settle`` or ``serve``; text where they go to a terminal."""
    structlog.configure(
        processors=_processors(process, clock or SystemClock(), terminal=sys.stderr.isatty()),
        wrapper_class=_LEVELS,
        logger_factory=_Lines,
    )


log: Final[FilteringBoundLogger] = structlog.get_logger()
"""That of this process."""
configure_log("")
