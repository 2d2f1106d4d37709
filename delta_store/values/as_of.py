"""A point in a stream's history as users write it: a sequence (a revision), a time, or an age. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_REVISION = re.compile(r"[0-9]{1,99}")
_AGO = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?: ?ago)?")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AsOf(NamedTuple):
    """A point in a stream's history: a sequence (inclusive), a time (exclusive), or now."""

    seq: int | None = None
    time: datetime | None = None

    @property
    def before_ns(self) -> int | None:
        """The time in ns since 1970, None where the point is no time."""
        return None if self.time is None else (self.time - _EPOCH) // timedelta(microseconds=1) * 1000


def moment(ns: int) -> datetime:
    """Return a time in ns since 1970, cut off to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


class NotAPoint(ValueError):
    """The text names no point in time."""


def parse_as_of(text: str | None, *, now: datetime) -> AsOf:
    """Parse ``42``, ``2026-01-31T12:00:00Z``, ``15m`` or ``2d12h ago``; None is now.

    A time without a zone is UTC. Raises :class:`NotAPoint`.
    """
    if text is None:
        return AsOf()
    text = text.strip()
    if _REVISION.fullmatch(text):
        if not int(text):
            raise NotAPoint("revisions begin with 1")
        return AsOf(seq=int(text))
    ago = _AGO.fullmatch(text)
    if ago is not None and any(ago.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in ago.groups())
        try:
            return AsOf(time=now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
        except OverflowError:
            raise NotAPoint(f"{text!r} is before the first day of the calendar") from None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotAPoint(
            f"{text!r} is no revision, no time such as 2026-01-31T12:00:00Z, and no age such as 15m"
        ) from None
    return AsOf(time=moment if moment.tzinfo else moment.replace(tzinfo=UTC))
