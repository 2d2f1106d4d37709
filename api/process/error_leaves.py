"""The errors in an exception group, however deep."""

from collections.abc import Iterator
from typing import Any


def leaves(group: ExceptionGroup[Any]) -> Iterator[Exception]:
    """Yield each error of the group and of the groups in it, in order."""
    for inner in group.exceptions:
        if isinstance(inner, ExceptionGroup):
            yield from leaves(inner)
        else:
            yield inner
