"""How much work something is, counted: what a busy machine can't change."""

import sys
from collections.abc import Callable
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Calls of functions, Python's own included, that ``work`` makes."""
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
    """How many times the operations of ``work(small)`` are those of ``work(times * small)``."""
    return operations(lambda: work(times * small)) / operations(lambda: work(small))
