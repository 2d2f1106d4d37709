"""The cost of a function in calls: a measure that a busy machine does not change."""

import sys
from collections.abc import Callable
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Return the number of function calls that ``work`` makes, built-in ones included."""
    count = 0

    def see(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def growth(work: Callable[[int], object], *, small: int, times: int) -> float:
    """Return the ratio of the operations of ``work(times * small)`` to those of ``work(small)``."""
    return operations(lambda: work(times * small)) / operations(lambda: work(small))
