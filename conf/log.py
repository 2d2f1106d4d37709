"""The log of a process: one JSON object a line, with the same fields in every process.

The fields are ``at`` (UTC, to the millisecond), ``level`` (``info``, ``warning`` or ``error``), ``process``, ``event``
(a fixed phrase), then those of the event. On a terminal it is a line of text instead.
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
    """The sink of formatted lines; a line that can't be written is dropped without an error."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        """Pass each line with its line end to ``write``; the default is standard error."""
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
    """Return a log for ``process`` that passes its lines to ``write``."""
    processors = _processors(process, clock, terminal=False)
    made: FilteringBoundLogger = structlog.wrap_logger(_Lines(write), processors=processors, wrapper_class=_LEVELS)
    return made


def configure_log(process: str, clock: Clock | None = None) -> None:
    """Name the process that :data:`log` writes for: ``gateway``, ``settle`` or ``serve``; a terminal gets text."""
    structlog.configure(
        processors=_processors(process, clock or SystemClock(), terminal=sys.stderr.isatty()),
        wrapper_class=_LEVELS,
        logger_factory=_Lines,
    )


log: Final[FilteringBoundLogger] = structlog.get_logger()
"""The log of this process."""
configure_log("")
