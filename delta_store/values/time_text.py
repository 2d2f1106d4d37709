"""RFC 3339 in UTC with nanoseconds, as Go prints it; a time is nanoseconds since 1970.

Python's ``datetime`` stops at microseconds, so the fraction is handled apart.
"""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000_000


def utc_text(ts_ns: int) -> str:
    """The time as text, with as many digits of the fraction as there are."""
    seconds, rest = divmod(ts_ns, _SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def utc_time(text: str) -> int:
    """The time that :func:`utc_text` wrote; raises ``ValueError`` for anything else."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int((datetime.fromisoformat(whole).replace(tzinfo=UTC) - _EPOCH).total_seconds())
    return seconds * _SECOND + int(fraction[:9].ljust(9, "0") if fraction else "0")
