"""Integers in decimal as Go's ``strconv.Atoi`` reads them: with a sign or without, within 64 bits."""

import re

from delta_store.dialect.json_syntax import quote

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_DIGITS_MAX = 19


class NotAnInteger(ValueError):
    """The text holds no integer, or one that 64 bits do not hold; says it in Go's words."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"strconv.Atoi: parsing {quote(text)}: {why}")


def atoi(text: str) -> int:
    """The integer that a text holds. Raises :class:`NotAnInteger`."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        raise NotAnInteger(text, "invalid syntax")
    number = int(found[1] + found[2][: _DIGITS_MAX + 1])
    if not _LOWEST <= number <= _HIGHEST:
        raise NotAnInteger(text, "value out of range")
    return number
