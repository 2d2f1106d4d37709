"""Child processes that the kernel kills when their parent ends (Linux)."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent: int) -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that has the child killed when ``parent`` ends; None where the system can't.

    The kernel watches the thread that forked: start the child from one that lives as long as the process.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: the child only calls

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arm
