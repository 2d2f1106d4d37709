"""The one LRU cache, bounded by number or size. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _one(_value: object) -> int:
    return 1


class Lru(Generic[K, V]):
    """A cache of values by key; the least recently used leave first.

    The total size stays within ``most``; the size of a value is 1, or ``size_of`` of it, computed once when it is put.
    The ``least`` values used last stay whatever their sizes are.

    Not thread-safe: an owner with threads holds its lock around each call. Only :meth:`peek` needs none.
    """

    __slots__ = ("_kept", "_least", "_most", "_size_of", "size")

    def __init__(self, most: int, size_of: Callable[[V], int] = _one, *, least: int = 0) -> None:
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._most, self._size_of, self._least = most, size_of, least
        self.size = 0
        """The total size of all values."""

    def get(self, key: K) -> V | None:
        """Return the value and mark it as used; None when the key is absent."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def peek(self, key: K) -> V | None:
        """Return the value without marking it as used; None when the key is absent."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V) -> list[V]:
        """Put a value in place of the key's old one; return the values that were evicted for it.

        A value that is larger than ``most`` is not taken in, unless ``least`` makes room for it.
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
        """Remove a value and return it; None when the key is absent."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self.size -= found[1]
        return found[0]

    def clear(self) -> None:
        """Remove everything."""
        self._kept.clear()
        self.size = 0

    def items(self) -> Iterable[tuple[K, V]]:
        """Iterate over keys and values, least recently used first."""
        return ((key, value) for key, (value, _) in self._kept.items())

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)
