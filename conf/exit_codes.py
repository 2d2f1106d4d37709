"""Exit statuses of ``silt``; the numbers are part of the interface."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, listed in ``silt --help``."""

    OK = 0
    FAILED = 1
    USAGE = 2
    IN_USE = 3
    UNREACHABLE = 4
    NOT_FOUND = 5


EPILOG = (
    "Exit codes: 0 done; 1 it failed; 2 wrong usage; 3 the folder is in use; 4 nobody answers at the server's "
    "address; 5 no such stream."
)
