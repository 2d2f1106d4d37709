"""The errors of a SQL statement, beside those of reading the store. Pure."""

from enum import StrEnum


class SqlErrorKind(StrEnum):
    """Stable names of the errors, for APIs; append only."""

    INVALID = "invalid"
    """The statement has no meaning here: syntax, an unknown name, a type, a value that can't be converted."""
    REFUSED = "refused"
    """The statement would do more than read the views."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    ROWS = "rows"
    CANCELLED = "cancelled"


class SqlError(Exception):
    """A statement that was not answered; the text says why, and what helps."""

    def __init__(self, kind: SqlErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def invalid(message: str) -> SqlError:
    """Return the error of a statement without a meaning."""
    return SqlError(SqlErrorKind.INVALID, message)


def refused(message: str) -> SqlError:
    """Return the error of a statement that would do more than read the views."""
    return SqlError(SqlErrorKind.REFUSED, message)
