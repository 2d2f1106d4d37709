"""What was used last, within a bound: the one cache of its kind. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _one(_value: object) -> int:
    return 1


class Lru(Generic[K, V]):
    """Values by key, of which those used longest ago leave first.

    The sizes of all values stay within ``most``: their number, or what ``size_of`` makes of each, which is asked once,
    when the value comes. The ``least`` values used last stay whatever their sizes are.

    Not thread-safe: an owner with threads holds its lock around each call. Only :meth:`peek` needs none.
    """

    __slots__ = ("_kept", "_least", "_most", "_size_of", "size")

    def __init__(self, most: int, size_of: Callable[[V], int] = _one, *, least: int = 0) -> None:
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._most, self._size_of, self._least = most, size_of, least
        self.size = 0
        """The sizes of all that is kept."""

    def get(self, key: K) -> V | None:
        """The value, which counts as used; None when there is none."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def peek(self, key: K) -> V | None:
        """The value, which does not count as used; None when there is none."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V) -> list[V]:
        """Keep a value, in place of the one that the key had; gives those that left for it.

        A value that is larger than all that may be kept is not taken in, unless ``least`` makes room for it.
        """
        self.pop(key)
        size = self._size_of(value)
        if size > self._most and not self._least:
            return []
        self._kept[key] = (value, size)
        self.size += size
        left = []
        while self.size > self._most and len(self._kept) > self._least:
            _, (gone, its_size) = self._kept.popitem(last=False)
            self.size -= its_size
            left.append(gone)
        return left

    def pop(self, key: K) -> V | None:
        """Forget a value; None when there was none."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self.size -= found[1]
        return found[0]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.size = 0

    def items(self) -> Iterable[tuple[K, V]]:
        """Keys and values, those used longest ago first."""
        return ((key, value) for key, (value, _) in self._kept.items())

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)
