"""Patterns of message schedules (ADR-51) and the times they name, as nats-server 2.15 reads them. Pure.

``@at`` a time, ``@every`` so often, or six cron fields (seconds first) and their names such as ``@daily``, in UTC or a
time zone. Times are ns since 1970; where a local time does not exist or exists twice, Go's choice is taken.
"""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from delta_store.dialect.durations import parse_duration
from delta_store.dialect.integers import atoi
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.times import exact_time

_SECOND: Final = 1_000_000_000
_HOUR: Final = 3600
_DAY: Final = 86_400
_INT64: Final = 1 << 63
_ZERO_TIME: Final = -62_135_596_800 * _SECOND
"""Go's zero time: such an ``@at`` is no schedule."""
_STAR: Final = 1 << 63
_YEARS_MAX: Final = 5
_NAMED: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BLANK: Final = re.compile(r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class Firing(NamedTuple):
    """When a schedule is due, and whether it is due again after that."""

    due_ns: int
    repeats: bool


class BadZone(ValueError):
    """An unknown time zone."""


class _Cron(NamedTuple):
    """The values of each cron field as bits."""

    second: int
    minute: int
    hour: int
    day: int
    month: int
    weekday: int


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Return the time zone of this name; raise :class:`BadZone`. The zone ``Local`` is UTC."""
    if name in ("UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadZone(name) from None


def firing(pattern: str, where: tzinfo | None, *, ts_ns: int, now_ns: int) -> Firing | None:
    """Return when a schedule of time ``ts_ns`` is due next; None when the pattern is not valid.

    Firings missed before ``now_ns`` become one. Only cron patterns take a time zone. A due time of 0 without repetition
    stands for Go's zero time, which schedules nothing. A time beyond 64 bits is the nearest one within them
    (nats-server wraps it around), one before 1970 is due at once.
    """
    if pattern.startswith("@at "):
        at_ns = time_ns(pattern[4:]) if where is None else None
        if at_ns is None:
            return None
        return Firing(0 if at_ns == _ZERO_TIME else max(1, min(at_ns, _INT64 - 1)), repeats=False)
    if pattern.startswith("@every "):
        step = parse_duration(pattern[7:]) if where is None else None
        if step is None or step < _SECOND:
            return None
        due = _rounded(ts_ns) + step
        return Firing(due if due >= now_ns else _rounded(now_ns) + step, repeats=True)
    cron = _cron(_NAMED.get(pattern, pattern))
    if cron is None:
        return None
    second = _next(cron, where or UTC, ts_ns // _SECOND)
    if second is not None and second * _SECOND < now_ns:
        second = _next(cron, where or UTC, _rounded(now_ns) // _SECOND)
    return None if second is None else Firing(second * _SECOND, repeats=True)


def time_ns(text: str) -> int | None:
    """Parse an RFC 3339 time, in ns; None when it is none. May lie beyond 64 bits."""
    try:
        return exact_time(text)
    except JsonError:
        return None


def _rounded(ns: int) -> int:
    return (ns + _SECOND // 2) // _SECOND * _SECOND


@lru_cache(maxsize=1024)
def _cron(pattern: str) -> _Cron | None:
    texts = [text for text in _BLANK.split(pattern) if text]
    if len(texts) != 6:
        return None
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    names = {name: place + 1 for place, name in enumerate(_MONTHS)}, {name: at for at, name in enumerate(_DAYS)}
    try:
        parsed = [
            _field(text, least, most, {4: names[0], 5: names[1]}.get(place, {}))
            for place, (text, (least, most)) in enumerate(zip(texts, bounds, strict=True))
        ]
    except ValueError:
        return None
    # A second, minute or hour that never comes would be searched for through five years.
    return _Cron(*parsed) if all(parsed[:3]) else None


def _field(text: str, least: int, most: int, names: dict[str, int]) -> int:
    """Return the bits of one field; raise ``ValueError``."""
    bits = 0
    for part in filter(None, text.split(",")):
        bits |= _range(part, least, most, names)
    return bits


def _range(text: str, least: int, most: int, names: dict[str, int]) -> int:
    span, *steps = text.split("/")
    low, *high = span.split("-")
    extra = 0
    if low in ("*", "?"):
        start, end, extra = least, most, _STAR
    elif len(high) > 1:
        raise ValueError(text)
    else:
        start = _number(low, names)
        end = _number(high[0], names) if high else start
    step = 1
    if steps:
        step = _number(steps[0], {})
        end = end if high else most
        extra = 0 if step > 1 else extra
    if len(steps) > 1 or start < least or end > most or start > end or not step:
        raise ValueError(text)
    return sum(1 << value for value in range(start, end + 1, step)) | extra


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    number = atoi(text)
    if number < 0:
        raise ValueError(text)
    return number


class _Local:
    """A moment in a time zone, in whole seconds, that moves as Go's ``time.Time`` does."""

    __slots__ = ("_where", "at", "unix")

    def __init__(self, unix: int, where: tzinfo) -> None:
        self._where = where
        self.to(unix)

    def to(self, unix: int) -> None:
        """Move to a moment."""
        self.unix = unix
        self.at = datetime.fromtimestamp(unix, self._where)

    def to_date(self, day: date, seconds: int = 0) -> None:
        """Move to a local time of day; as in Go, the offset is looked up twice."""
        naive = (day - date(1970, 1, 1)).days * _DAY + seconds
        offset = self._offset(naive)
        self.to(naive - (self._offset(naive - offset) if offset else 0))

    @property
    def seconds(self) -> int:
        """Seconds since local midnight by the clock."""
        return self.at.hour * _HOUR + self.at.minute * 60 + self.at.second

    def _offset(self, unix: int) -> int:
        offset = datetime.fromtimestamp(unix, self._where).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0


def _next(cron: _Cron, where: tzinfo, second: int) -> int | None:
    """Return the first second after this one that matches; None when there is none within five years."""
    here = _Local(second + 1, where)
    last_year = here.at.year + _YEARS_MAX
    truncated = False
    while here.at.year <= last_year:
        found, truncated = _find_day(cron, here, truncated=truncated)
        if not found:
            continue
        if _find_time(cron, here, truncated=truncated):
            return here.unix
        truncated = True
    return None


def _find_day(cron: _Cron, here: _Local, *, truncated: bool) -> tuple[bool, bool]:
    """Advance to a day that matches; return False if a year or month ended before, and the new ``truncated``."""
    while not cron.month >> here.at.month & 1:
        if not truncated:
            truncated = True
            here.to_date(here.at.date().replace(day=1))
        months = here.at.year * 12 + here.at.month
        first = date(months // 12, months % 12 + 1, 1)
        here.to_date(first + timedelta(days=here.at.day - 1), here.seconds)
        if here.at.month == 1:
            return False, truncated
    while not _day_matches(cron, here.at):
        if not truncated:
            truncated = True
            here.to_date(here.at.date())
        here.to_date(here.at.date() + timedelta(days=1), here.seconds)
        if here.at.day == 1:
            return False, truncated
    return True, truncated


def _find_time(cron: _Cron, here: _Local, *, truncated: bool) -> bool:
    """Advance to an hour, minute and second that match; return False when a day, hour or minute ended before."""
    while not cron.hour >> here.at.hour & 1:
        if not truncated:
            truncated = True
            here.to_date(here.at.date(), here.at.hour * _HOUR)
        here.to(here.unix + _HOUR)
        if not here.at.hour:
            return False
    while not cron.minute >> here.at.minute & 1:
        if not truncated:
            truncated = True
            here.to(here.unix - here.unix % 60)
        here.to(here.unix + 60)
        if not here.at.minute:
            return False
    while not cron.second >> here.at.second & 1:
        here.to(here.unix + 1)
        if not here.at.second:
            return False
    return True


def _day_matches(cron: _Cron, at: datetime) -> bool:
    of_month, of_week = bool(cron.day >> at.day & 1), bool(cron.weekday >> at.isoweekday() % 7 & 1)
    return of_month and of_week if (cron.day | cron.weekday) & _STAR else of_month or of_week
