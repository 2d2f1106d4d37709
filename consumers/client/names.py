"""Names that become tokens of a subject. Pure."""

from consumers.client.errors import UsageError

_FORBIDDEN = frozenset(">*. /\\\t\r\n\0")


def checked(name: str, what: str) -> str:
    """``name``, if it is one subject token that the server can store under; else :class:`UsageError`."""
    if not name or _FORBIDDEN.intersection(name):
        raise UsageError(f"{what} name {name!r}: empty, or with one of '> * . / \\' or white space in it")
    return name


def checked_subject(subject: str) -> str:
    """``subject``, if it cannot break out of a protocol line; the server judges the rest of it."""
    if not subject or any(sign.isspace() for sign in subject):
        raise UsageError(f"subject {subject!r} is empty or has white space in it")
    return subject
