"""RFC 3339 times with nanoseconds, read and written as Go does.

A time is ns since 1970 UTC. Python's ``datetime`` stops at microseconds, so the fraction is handled apart. A time
beyond 64 bits (before 1678, after 2262) becomes the nearest one within; nats-server wraps it around.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from delta_store.dialect.json_syntax import JsonError

ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time, which stands for the first and last time of a stream without messages."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = timedelta()
_SECOND = 1_000_000_000
_EARLIEST, _LATEST = -(2**63), 2**63 - 1
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_FRACTION = re.compile(r"[.,]([0-9]+)")
_ZONE = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


class _Part(NamedTuple):
    """One number of the layout and the literal that must follow it."""

    name: str
    shown: str
    digits: re.Pattern[str]
    low: int
    high: int
    after: str


_TWO = re.compile(r"[0-9]{2}")
_PARTS = (
    _Part("year", "2006", re.compile(r"[0-9]{4}"), 0, 9999, "-"),
    _Part("month", "01", _TWO, 1, 12, "-"),
    _Part("day", "02", _TWO, 1, 31, "T"),
    _Part("hour", "15", re.compile(r"[0-9]{1,2}"), 0, 23, ":"),
    _Part("minute", "04", _TWO, 0, 59, ":"),
    _Part("second", "05", _TWO, 0, 59, ""),
)


def format_time(ts_ns: int | None, where: tzinfo = UTC) -> str:
    """Format a time in a time zone, with as many digits of the fraction as needed; None is :data:`ZERO_TIME`."""
    if ts_ns is None:
        return ZERO_TIME
    seconds, rest = divmod(ts_ns, _SECOND)
    offset = _NONE if where is UTC else datetime.fromtimestamp(seconds, where).utcoffset() or _NONE
    text = (_EPOCH + timedelta(seconds=seconds) + offset).replace(tzinfo=None).isoformat()
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return text + fraction + (_zone_text(offset // timedelta(minutes=1)) if offset else "Z")


def parse_time(text: str) -> int:
    """Return the ns of an RFC 3339 time; raise :class:`JsonError` with Go's text for anything else."""
    return max(_EARLIEST, min(exact_time(text), _LATEST))


def exact_time(text: str) -> int:
    """Parse as :func:`parse_time`, but without bounds."""
    values: list[int] = []
    rest = text
    for part in _PARTS:
        found = part.digits.match(rest)
        if found is None:
            raise _cannot_parse(text, rest, part.shown)
        value = int(found[0])
        if not part.low <= value <= part.high:
            raise JsonError(f"parsing time {_quote(text)}: {part.name} out of range")
        values.append(value)
        rest = rest[found.end() :]
        if not rest.startswith(part.after):
            raise _cannot_parse(text, rest, part.after)
        rest = rest[len(part.after) :]
    nanoseconds = 0
    if fraction := _FRACTION.match(rest):
        nanoseconds = int(fraction[1][:9].ljust(9, "0"))
        rest = rest[fraction.end() :]
    offset_seconds = _zone(text, rest)
    return _since_epoch(text, values) + nanoseconds - offset_seconds * _SECOND


def _zone_text(minutes_east: int) -> str:
    return f"{'-' if minutes_east < 0 else '+'}{abs(minutes_east) // 60:02}:{abs(minutes_east) % 60:02}"


def _zone(text: str, rest: str) -> int:
    """Return the seconds east of UTC of the zone at the end of the text."""
    if rest.startswith("Z"):
        offset, end = 0, 1
    else:
        found = _ZONE.match(rest)
        if found is None:
            raise _cannot_parse(text, rest, "Z07:00")
        hours, minutes = int(found[2]), int(found[3])
        if hours > 24:
            raise JsonError(f"parsing time {_quote(text)}: time zone offset hour out of range")
        if minutes > 60:
            raise JsonError(f"parsing time {_quote(text)}: time zone offset minute out of range")
        offset, end = (hours * 60 + minutes) * 60 * (-1 if found[1] == "-" else 1), found.end()
    if rest[end:]:
        raise JsonError(f"parsing time {_quote(text)}: extra text: {_quote(rest[end:])}")
    return offset


def _since_epoch(text: str, values: list[int]) -> int:
    year, month, day, hour, minute, second = values
    # The calendar repeats after 400 years, and Python's begins with year 1 where Go's has a year 0.
    shift = 400 if year == 0 else 0
    try:
        moment = datetime(year + shift, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise JsonError(f"parsing time {_quote(text)}: day out of range") from None
    days = (moment - _EPOCH).days - (146_097 if shift else 0)
    return (days * 86_400 + (hour * 60 + minute) * 60 + second) * _SECOND


def _cannot_parse(text: str, rest: str, element: str) -> JsonError:
    told = f"parsing time {_quote(text)} as {_quote(_LAYOUT)}"
    return JsonError(f"{told}: cannot parse {_quote(rest)} as {_quote(element)}")


def _quote(text: str) -> str:
    """Quote as Go's ``time`` package does: each byte that is not printable ASCII is escaped."""
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char < "\x80" else "".join(f"\\x{byte:02x}" for byte in char.encode())
