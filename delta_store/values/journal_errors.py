"""Errors of a table's owner and of its storage, by what the owner has to do. The first table was the journal.

    JournalError
    ├── Fenced              stop: another process owns the table now; nothing was written
    ├── CommitUnknown       stop: the commit may or may not be there; a new process reads which
    ├── JournalPoisoned     stop: an earlier failure left the disk's state in doubt
    ├── NotOwner            programmer error: commit without claim
    ├── ReadOvertaken       reader: rebuild from ``messages`` and the live files, then tail again
    └── StorageError
        ├── StorageFull     nothing was acknowledged: retry once there is space
        ├── StorageFailed   stop unless ``retryable``
        ├── EntryExists     internal: the put lost its race
        ├── NotStored       the named file is not there
        └── UnsafeStore     refuse to start: the store does not honour conditional puts

A file that is not what was written is ``DamagedData``, as for every reader. ``kind`` is stable, the message is not.
"""

from enum import StrEnum


class JournalErrorKind(StrEnum):
    """Stable names of the errors, for logs and metrics; append only."""

    FENCED = "fenced"
    COMMIT_UNKNOWN = "commit_unknown"
    POISONED = "journal_poisoned"
    NOT_OWNER = "not_owner"
    READ_OVERTAKEN = "read_overtaken"
    STORAGE_FULL = "storage_full"
    STORAGE_FAILED = "storage_failed"
    ENTRY_EXISTS = "entry_exists"
    NOT_STORED = "not_stored"
    UNSAFE_STORE = "unsafe_store"


class JournalError(Exception):
    """Root of the journal's errors."""

    kind: JournalErrorKind
    retryable: bool = False
    """Whether the same call may be made again with the same rows."""


class Fenced(JournalError):
    """Another process has claimed the table since; this one must stop, a gateway its acknowledgements at once."""

    kind = JournalErrorKind.FENCED

    def __init__(self, own_epoch: int, found_epoch: int) -> None:
        super().__init__(f"another process owns the table by epoch {found_epoch}, this one has epoch {own_epoch}")
        self.own_epoch, self.found_epoch = own_epoch, found_epoch


class CommitUnknown(JournalError):
    """The log entry of a commit may have landed, and the store does not say whether it has."""

    kind = JournalErrorKind.COMMIT_UNKNOWN

    def __init__(self, version: int) -> None:
        super().__init__(f"commit of version {version} has an unknown outcome")
        self.version = version


class JournalPoisoned(JournalError):
    """An earlier commit failed in a way that leaves the disk's state in doubt: no commit is tried any more."""

    kind = JournalErrorKind.POISONED

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"nothing is committed any more after: {cause}")
        self.cause = cause


class NotOwner(JournalError):
    """A write was tried before the table was claimed."""

    kind = JournalErrorKind.NOT_OWNER

    def __init__(self) -> None:
        super().__init__("the table has not been claimed")


class ReadOvertaken(JournalError):
    """The version that a reader wanted next has been settled and cleaned up."""

    kind = JournalErrorKind.READ_OVERTAKEN

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} has been cleaned up")
        self.version = version


class StorageError(JournalError):
    """Root of the errors of a :class:`~delta_store.storage.storage.Storage`."""

    def __init__(self, name: str, reason: str, *, published: bool | None = False) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason
        self.published = published
        """Whether the log entry became visible; None when that is not known."""


class StorageFull(StorageError):
    """No space left (or quota reached). Retryable when nothing became visible."""

    kind = JournalErrorKind.STORAGE_FULL

    def __init__(self, name: str, reason: str, *, published: bool | None = False) -> None:
        super().__init__(name, reason, published=published)
        self.retryable = published is False


class StorageFailed(StorageError):
    """Any other failure: EIO, a lost connection, a refused request."""

    kind = JournalErrorKind.STORAGE_FAILED

    def __init__(self, name: str, reason: str, *, published: bool | None = False, retryable: bool = False) -> None:
        super().__init__(name, reason, published=published)
        self.retryable = retryable


class EntryExists(StorageError):
    """The log entry's name is taken: someone else's commit, or our own whose reply was lost."""

    kind = JournalErrorKind.ENTRY_EXISTS


class NotStored(StorageError):
    """No file of that name."""

    kind = JournalErrorKind.NOT_STORED


class UnsafeStore(StorageError):
    """Two racing conditional puts both won: two owners could both commit."""

    kind = JournalErrorKind.UNSAFE_STORE
