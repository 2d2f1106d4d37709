"""Niceness of this process and its children.

On Linux each thread has a niceness of its own, which new threads and children inherit; so existing ones are set one by
one.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def give_way(nice: int) -> None:
    """Raise the niceness of all threads of this process and its descendants to ``nice``; it is never lowered."""
    for thread in (0, *_threads(os.getpid())):
        with suppress(OSError):  # a thread that has ended meanwhile
            if os.getpriority(os.PRIO_PROCESS, thread) < nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)


def _threads(process: int) -> Iterator[int]:
    """Iterate over the thread ids of a process and its descendants; empty without ``/proc``."""
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            yield int(thread.name)
            with suppress(OSError):
                for child in (thread / "children").read_text().split():
                    yield from _threads(int(child))
