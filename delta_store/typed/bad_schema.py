"""The error of a schema that no table can have, and the bound of those that one can."""

from typing import Final

PARTS_MAX: Final = 5_000
"""Columns and their parts, references followed: a short text can name very many."""


class BadSchema(ValueError):
    """A stream's schema can't be used; the text says where and why, and what to do."""


class PartsLeft:
    """The parts that a schema may still have."""

    def __init__(self) -> None:
        self._left = PARTS_MAX

    def take(self, where: str) -> None:
        """Count one; raise :class:`BadSchema` when there are too many."""
        self._left -= 1
        if self._left < 0:
            raise BadSchema(f"{where}: the schema has more than {PARTS_MAX} parts, references followed")
