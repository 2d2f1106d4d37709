"""Durations as Go writes them (``1m30.5s``), also with weeks and days (``2w``, ``1d12h``), in ns."""

import re
from typing import Final

_UNITS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"([+-]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)", re.ASCII)
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONG: Final = re.compile(r"(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?([^+-]*)", re.ASCII)
_DAY: Final = 24 * _UNITS["h"]
_MAX: Final = (1 << 63) - 1
_TEXT_MAX: Final = 4096
"""Longer texts are not read: Python refuses to read integers of more than 4,300 digits."""


def parse_duration(text: str) -> int | None:
    """Return the duration in ns; None when the text is none or 64 bits do not hold it."""
    found = _DURATION.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if found is None:
        return None
    total = 0
    for whole, fraction, unit in _PART.findall(found[2]):
        size = _UNITS[unit]
        total += int(whole or "0") * size + int((fraction or "0")[:18]) * size // 10 ** len((fraction or "0")[:18])
    if total > _MAX:
        return None
    return -total if found[1] == "-" else total


def parse_age(text: str) -> int | None:
    """Return a duration without a sign, which may begin with weeks and days, in ns; None as :func:`parse_duration`."""
    found = _LONG.fullmatch(text)
    if found is None or not text:
        return None
    weeks, days, rest = found.groups()
    total = (int(weeks or 0) * 7 + int(days or 0)) * _DAY
    if rest:
        duration = parse_duration(rest)
        if duration is None:
            return None
        total += duration
    return total if total <= _MAX else None


def format_duration(ns: int) -> str:
    """Format a duration that is not negative as Go prints it."""
    for unit, size in (("ns", 1_000), ("µs", 1_000_000), ("ms", 1_000_000_000)):
        if 0 < ns < size:
            return _decimal(ns, size // 1000) + unit
    minutes, rest = divmod(ns, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, 1_000_000_000) + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + seconds


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{str(rest).zfill(len(str(unit)) - 1)}".rstrip("0") if rest else str(whole)
