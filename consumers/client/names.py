"""Checks of names that become tokens of a subject. Pure."""

from consumers.client.errors import UsageError

_FORBIDDEN = frozenset(">*. /\\\t\r\n\0")


def checked(name: str, what: str) -> str:
    """Return ``name`` if it is a valid name of a stream or consumer; raises :class:`UsageError` otherwise."""
    if not name or _FORBIDDEN.intersection(name):
        raise UsageError(f"{what} name {name!r}: empty, or with one of '> * . / \\' or white space in it")
    return name


def checked_subject(subject: str) -> str:
    """Return ``subject`` if it fits into a protocol line; raises :class:`UsageError`. The server checks the rest."""
    if not subject or any(sign.isspace() for sign in subject):
        raise UsageError(f"subject {subject!r} is empty or has white space in it")
    return subject
