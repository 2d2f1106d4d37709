"""Lets this process and those that it started give way to others.

On Linux each thread has a niceness of its own, which new threads and children inherit; so those that are there already
are told one by one.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def give_way(nice: int) -> None:
    """Lower the priority of all threads of this process and its descendants to ``nice``; none is ever raised."""
    for thread in (0, *_threads(os.getpid())):
        with suppress(OSError):  # a thread that has ended meanwhile
            if os.getpriority(os.PRIO_PROCESS, thread) < nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)


def _threads(process: int) -> Iterator[int]:
    """Thread ids of a process and all below it; none where there is no ``/proc``."""
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            yield int(thread.name)
            with suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield from _threads(int(child))
