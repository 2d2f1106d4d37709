"""Reads of many files of a table: one after the other from a disk, several at a time from an object store."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_THREADS: Final = 16
_Name = TypeVar("_Name")
_Content = TypeVar("_Content")


def each(
    location: str, read: Callable[[_Name], _Content], names: Iterable[_Name], *, at_once: int = _THREADS
) -> Iterator[_Content]:
    """Iterate over what ``read`` returns for each name, in order; ``at_once`` of an object store's in memory at most.

    Raises as ``read``.
    """
    if "://" not in location:
        yield from map(read, names)
        return
    wanted = list(names)
    if len(wanted) < 2:
        yield from map(read, wanted)
        return
    with ThreadPoolExecutor(min(at_once, len(wanted)), thread_name_prefix="reads") as threads:
        for start in range(0, len(wanted), at_once):
            yield from threads.map(read, wanted[start : start + at_once])
