"""The state of ``messages`` at a version as its owner holds it: files, note, stamp, and what left the table. Pure.

Invariants: versions are applied one by one without a gap, stamps only grow, and an entry that contradicts its note or
the files before it is damage. What the owner commits goes the same way: from the bytes of the entry into the state.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from delta_store.entries.entry_seal import Actions
from delta_store.entries.log_entry import Removed, Stamp
from delta_store.entries.settled_entry import APP_ID, OwnerTerms, TableFile, terms_of
from delta_store.entries.settled_log import MessagesEntry, Snapshot, read_entry
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import CommitNote, Op

_NEVER_CHANGES: Final = ("id", "schemaString", "partitionColumns")


class NextVersion(NamedTuple):
    """A commit and what it makes of the state before it."""

    entry: MessagesEntry
    terms: OwnerTerms
    after: Snapshot


class MessagesState:
    """The state after a fold over log entries. Not thread-safe: its owner guards it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        """The files as readers know them."""
        self.note: CommitNote | None = None
        """The newest note; None while there is none, or while it is not known."""
        self.stamp = Stamp(0, 0)
        """Of the newest commit that has one."""
        self.timestamp_ms = 0
        """Of the last commit."""
        self.metadata: Mapping[str, Any] = {}
        self.txns: dict[str, Mapping[str, Any]] = {}
        """The newest ``txn`` action of each appId."""
        self.live: dict[str, TableFile] = {}
        """Files of the table by path, as the log has them."""
        self.removed: dict[str, Removed] = {}
        """Files that left the table, by path, until they are deleted."""

    @property
    def version(self) -> int:
        """The version; -1 without a table."""
        return self.snapshot.version

    def step(self, version: int, actions: Actions, *, file: str) -> NextVersion:
        """Return what a commit makes of this state; raises :class:`DamagedData` when it does not follow from it."""
        entry = read_entry(version, actions, file=file)
        try:
            terms = terms_of(actions)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedData(file, str(error)) from error
        if fault := self._fault_of(entry, terms):
            raise DamagedData(file, fault)
        if self.version >= 0 and self.note is None:
            return NextVersion(entry, terms, self.snapshot.after(entry))
        return NextVersion(entry, terms, self.snapshot.confirmed_after(entry, file=file))

    def take(self, step: NextVersion) -> None:
        """Advance by the next commit."""
        entry, terms = step.entry, step.terms
        for gone in entry.removed:
            if self.live.pop(gone.name, None) is not None:
                self.removed[gone.name] = gone
        for path in terms.added:
            self.removed.pop(path, None)
        self.live.update(terms.added)
        self.txns.update(terms.txns)
        self.snapshot, self.timestamp_ms = step.after, max(self.timestamp_ms, entry.timestamp_ms)
        self.note = entry.note or self.note
        self.metadata = terms.metadata or self.metadata
        if APP_ID in terms.txns:
            self.stamp = max(self.stamp, Stamp.of(terms.txns[APP_ID]["version"]))

    def told(self) -> CommitNote:
        """Return the newest note, or one that says nothing."""
        return self.note or CommitNote(Op.APPEND, {})

    def forget_removed(self, paths: Iterable[str]) -> None:
        """Forget files that left the table and were deleted."""
        for path in paths:
            self.removed.pop(path, None)

    def _fault_of(self, entry: MessagesEntry, terms: OwnerTerms) -> str | None:
        new, known = terms.metadata, self.metadata or terms.metadata
        if entry.version != self.version + 1:
            return f"version {entry.version} does not follow version {self.version}"
        if known is None:
            return "there is no metaData"
        if new is not None and any(new.get(one) != known.get(one) for one in _NEVER_CHANGES):
            return "its metaData is that of another table"
        if terms.stamp is None:
            return None
        if self.version >= 0 and terms.stamp <= self.stamp:
            return f"commit {tuple(terms.stamp)} after commit {tuple(self.stamp)}"
        unknown = (each.name for each in entry.removed if each.name not in self.live)
        return next((f"removes {name}, which is not in the table" for name in unknown), None)
