"""Many files are read in their order, from a store several at a time, and an error ends it."""

from threading import Barrier

import pytest

from delta_store.storage.read_many import each


def test_a_folder_is_read_as_it_is_asked_for() -> None:
    """One file at a time, none ahead."""
    seen: list[int] = []
    bodies = each("/data", lambda name: seen.append(name) or name * 10, range(5))  # type: ignore[func-returns-value]
    assert next(bodies) == 0
    assert seen == [0]
    assert list(bodies) == [10, 20, 30, 40]


def test_a_store_is_read_by_several_threads() -> None:
    """Each batch of reads is under way at once, and comes back in order."""
    together = Barrier(3, timeout=30)

    def read(name: int) -> int:
        together.wait()
        return name * 10

    assert list(each("s3://bucket/journal", read, range(9), at_once=3)) == [name * 10 for name in range(9)]
    assert list(each("s3://bucket/journal", read, [])) == []


def test_an_error_is_the_readers_own() -> None:
    """Nothing behind it is handed over."""
    bodies = each("s3://bucket/journal", lambda name: 1 // (2 - name), range(5))
    assert next(bodies) == 0
    assert next(bodies) == 1
    with pytest.raises(ZeroDivisionError):
        next(bodies)
