"""Decimal integers as Go's ``strconv.Atoi`` reads them: signed or not, within 64 bits."""

import re

from delta_store.dialect.json_syntax import quote

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_DIGITS_MAX = 19


class NotAnInteger(ValueError):
    """The text is no integer, or one that 64 bits do not hold; the error text is Go's."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"strconv.Atoi: parsing {quote(text)}: {why}")


def atoi(text: str) -> int:
    """Parse an integer. Raises :class:`NotAnInteger`."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        raise NotAnInteger(text, "invalid syntax")
    number = int(found[1] + found[2][: _DIGITS_MAX + 1])
    if not _LOWEST <= number <= _HIGHEST:
        raise NotAnInteger(text, "value out of range")
    return number
