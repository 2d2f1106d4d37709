"""Errors of reading the store, by what the reader can do about it.

::

    ReadError
    ├── DamagedData   a file does not hold what was written: never served, an operator must look
    ├── PastHorizon   the past asked for is no longer kept: ask for a later point
    ├── FileGone      a file was truncated or vacuumed under the reader: refresh the view and try again
    ├── StoreAway     the object store did not answer: try again later
    ├── TooMany       more subjects match than one answer may have: ask for fewer
    ├── NoSuchStream  there is no such stream, or no longer
    └── NoSuchCut     there is no such cut: ask which there are
"""

from enum import StrEnum

from delta_store.values.oldest_point import OldestPoint


class ReadErrorKind(StrEnum):
    """Stable names of the errors, for logs and APIs; append only."""

    DAMAGED_DATA = "damaged_data"
    PAST_HORIZON = "past_horizon"
    FILE_GONE = "file_gone"
    TOO_MANY = "too_many"
    NO_SUCH_STREAM = "no_such_stream"
    STORE_AWAY = "store_away"
    NO_SUCH_CUT = "no_such_cut"


class ReadError(Exception):
    """Root of all read errors."""

    kind: ReadErrorKind
    retryable = False


class DamagedData(ReadError):
    """A log entry or data file of either table is damaged; ``file`` names it."""

    kind = ReadErrorKind.DAMAGED_DATA

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} is damaged: {reason}")
        self.file, self.reason = file, reason


class PastHorizon(ReadError):
    """The state asked for is older than the history horizon; ``seq`` is that which was asked for, where it is known.

    ``oldest`` is the oldest point that can be read; None where nobody has looked.
    """

    kind = ReadErrorKind.PAST_HORIZON

    def __init__(self, stream: str, seq: int | None, oldest: OldestPoint | None = None) -> None:
        point = "that point" if seq is None else f"sequence {seq}"
        first = f"; the oldest that can be read is {oldest}" if oldest else ""
        super().__init__(f"stream {stream!r}: the state at {point} is past the history horizon{first}")
        self.stream, self.seq, self.oldest = stream, seq, oldest


class FileGone(ReadError):
    """A file of the pinned view no longer exists; ``file`` names it."""

    kind = ReadErrorKind.FILE_GONE
    retryable = True

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} is gone")
        self.file = file


class StoreAway(ReadError):
    """The object store did not answer, or refused to; ``file`` names what was read."""

    kind = ReadErrorKind.STORE_AWAY
    retryable = True

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} can't be read now: {reason}")
        self.file, self.reason = file, reason


class TooMany(ReadError):
    """More than ``limit`` subjects match."""

    kind = ReadErrorKind.TOO_MANY

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} subjects match")
        self.limit = limit


class NoSuchStream(ReadError):
    """No stream of this name exists now."""

    kind = ReadErrorKind.NO_SUCH_STREAM

    def __init__(self, stream: str) -> None:
        super().__init__(f"there is no stream {stream!r}")
        self.stream = stream


class NoSuchCut(ReadError):
    """No cut of this name exists now."""

    kind = ReadErrorKind.NO_SUCH_CUT

    def __init__(self, cut: str) -> None:
        super().__init__(f"there is no cut {cut!r}: silt cut ls lists those that there are")
        self.cut = cut
