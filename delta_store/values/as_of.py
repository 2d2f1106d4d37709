"""A point in a stream's history as users write it: a sequence (a revision), a time, an age, or a cut. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

_REVISION = re.compile(r"[0-9]{1,99}")
_AGO = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?: ?ago)?")
_CUT: Final = "cut:"
_CUT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AsOf(NamedTuple):
    """A point in a stream's history: a sequence (inclusive), a time (exclusive), a cut, or now."""

    seq: int | None = None
    before_ns: int | None = None
    """A time, ns since 1970."""
    cut: str | None = None
    """The name of a cut: a point over all streams."""

    @classmethod
    def at(cls, time: datetime) -> Self:
        """Return the point of a time with a zone."""
        return cls(before_ns=(time - _EPOCH) // timedelta(microseconds=1) * 1000)

    @property
    def time(self) -> datetime | None:
        """The time, None where the point is none."""
        return None if self.before_ns is None else moment(self.before_ns)

    @property
    def text(self) -> str | None:
        """The point as users write it, None for now."""
        if self.cut is not None:
            return _CUT + self.cut
        return str(self.seq) if self.seq is not None else self.time.isoformat() if self.time is not None else None


def moment(ns: int) -> datetime:
    """Return a time in ns since 1970, cut off to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


NOW: Final = AsOf()


class NotAPoint(ValueError):
    """The text names no point in time."""


def cut_name(text: str) -> str:
    """Return the name of a cut. Raises :class:`NotAPoint`."""
    if not _CUT_NAME.fullmatch(text):
        raise NotAPoint(f"{text[:80]!r} is no name of a cut: it takes 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return text


def parse_as_of(text: str | None, *, now: datetime) -> AsOf:
    """Parse ``42``, ``2026-01-31T12:00:00Z``, ``15m``, ``2d12h ago`` or ``cut:NAME``; None is now.

    A time without a zone is UTC. Raises :class:`NotAPoint`.
    """
    if text is None:
        return NOW
    text = text.strip()
    if text.startswith(_CUT):
        return AsOf(cut=cut_name(text.removeprefix(_CUT)))
    if _REVISION.fullmatch(text):
        if not int(text):
            raise NotAPoint("revisions begin with 1")
        return AsOf(seq=int(text))
    ago = _AGO.fullmatch(text)
    if ago is not None and any(ago.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in ago.groups())
        try:
            return AsOf.at(now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
        except OverflowError:
            raise NotAPoint(f"{text!r} is before the first day of the calendar") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise NotAPoint(
            f"{text!r} is no sequence, no time such as 2026-01-31T12:00:00Z, no age such as 15m, and no cut:NAME"
        ) from None
    return AsOf.at(time if time.tzinfo else time.replace(tzinfo=UTC))
