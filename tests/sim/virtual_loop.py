"""An event loop without a clock, without threads and without sockets: time passes when nothing is left to do.

So what runs on it is decided by the order of its callbacks alone, and hours cost nothing. What would run in a thread
runs on the loop instead, a little later, so that other things happen in between as they would beside a thread.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

START_NS = 1_750_000_000_000_000_000
_THREAD_SECONDS = (0.0, 0.0001, 0.002, 0.02)
"""How long a call in a thread may take."""


class Stuck(Exception):
    """Nothing is left to do, and nothing will ever be."""


class _Nothing:
    """What a selector is asked when there are no sockets."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time pass until the next timer."""
        if timeout is None:
            raise Stuck
        self._loop.seconds += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Time is :attr:`seconds`; ``dice`` says how long calls in threads take."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.seconds = 0.0
        self.process = 0
        """Counts processes: calls in the threads of one that is gone are never made."""
        self.errors: list[dict[str, Any]] = []
        self._selector = _Nothing(self)
        self._clock_resolution = 1e-9
        self._dice = dice
        self.set_exception_handler(lambda _loop, context: self.errors.append(context))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call it here, a little later."""
        future, process = self.create_future(), self.process

        def call() -> None:
            if future.cancelled() or process != self.process:
                return
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001  # whoever waits gets it
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._dice.choice(_THREAD_SECONDS), call)
        return future

    def _process_events(self, event_list: Any) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """There is no other thread that might have to wake this one."""


class VirtualClock:
    """Wall time and monotonic time of a loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return START_NS + round(self._loop.seconds * 1e9)

    def monotonic(self) -> float:
        """Seconds."""
        return self._loop.seconds
