"""Niceness of this process and its children.

On Linux each thread has a niceness of its own, which new threads and children inherit; so existing ones are set one by
one.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_OWN: Final = os.getpriority(os.PRIO_PROCESS, 0)
"""The niceness that the process was started with."""
HURRY_SECONDS: Final = 5.0
"""Lag from which on the settle job gives way to nobody; below half of it, it does again."""


def give_way(nice: int) -> None:
    """Raise the niceness of all threads of this process and its descendants to ``nice``; it is never lowered."""
    for thread in (0, *_threads(os.getpid())):
        with suppress(OSError):  # a thread that has ended meanwhile
            if os.getpriority(os.PRIO_PROCESS, thread) < nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)


class Niceness:
    """Gives way to other processes while settling keeps up. Only root may take niceness back: else it stays."""

    def __init__(self, nice: int) -> None:
        """Start at once with niceness ``nice``."""
        self._nice = nice
        self._hurries = False
        give_way(nice)

    def follow(self, lag_seconds: float) -> bool:
        """Adapt to the age of the oldest unsettled row; return whether the process gives way to nobody now."""
        hurries = lag_seconds >= (HURRY_SECONDS / 2 if self._hurries else HURRY_SECONDS)
        if hurries != self._hurries:
            self._hurries = hurries
            _set(_OWN if hurries else self._nice)
        return hurries


def _set(nice: int) -> None:
    for thread in (0, *_threads(os.getpid())):
        with suppress(OSError):  # one that has ended, or no right to hurry
            os.setpriority(os.PRIO_PROCESS, thread, nice)


def _threads(process: int) -> Iterator[int]:
    """Iterate over the thread ids of a process and its descendants; empty without ``/proc``."""
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            yield int(thread.name)
            with suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield from _threads(int(child))
