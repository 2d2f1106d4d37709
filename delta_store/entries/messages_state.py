"""The state of ``messages`` at a version as its owner holds it: files, note, stamp, and what left the table. Pure.

Invariants: versions are applied one by one without a gap, stamps only grow, and an entry that contradicts its note or
the files before it is damage. What the owner commits goes the same way: from the bytes of the entry into the state.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from delta_store.entries.entry_seal import Actions
from delta_store.entries.log_entry import Removed, Stamp
from delta_store.entries.settled_claims import fault_of_step
from delta_store.entries.settled_entry import APP_ID, TableFile, terms_of
from delta_store.entries.settled_log import MessagesEntry, Snapshot, read_entry
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import CommitNote, Op

_NEVER_CHANGES: Final = ("id", "schemaString", "partitionColumns")


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
        self.removed: OrderedDict[str, Removed] = OrderedDict()
        """Files that left the table, by path, until they are forgotten."""

    @property
    def version(self) -> int:
        """The version; -1 without a table."""
        return self.snapshot.version

    def apply(self, version: int, actions: Actions, *, file: str) -> MessagesEntry:
        """Advance by one commit, and return it; raises :class:`DamagedData`, unchanged, when it does not follow."""
        entry = read_entry(version, actions, file=file)
        try:
            terms = terms_of(actions)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedData(file, str(error)) from error
        if fault := self._fault_of(entry, terms.stamp, terms.metadata):
            raise DamagedData(file, fault)
        after = self.snapshot.after(entry)
        if self.note is not None or self.version < 0:
            streams = {one.stream for one in entry.added if one.stream is not None}
            if fault := fault_of_step(entry.note, streams, self.snapshot.watermarks, (self.snapshot.rows, after.rows)):
                raise DamagedData(file, fault)
        for gone in entry.removed:
            if self.live.pop(gone.name, None) is not None:
                self.removed[gone.name] = gone
        for path in terms.added:
            self.removed.pop(path, None)
        self.live.update(terms.added)
        self.txns.update(terms.txns)
        self.snapshot, self.timestamp_ms = after, max(self.timestamp_ms, entry.timestamp_ms)
        self.note = entry.note or self.note
        self.metadata = terms.metadata or self.metadata
        txn = terms.txns.get(APP_ID)
        self.stamp = self.stamp if txn is None else max(self.stamp, Stamp.of(txn["version"]))
        return entry

    def told(self) -> CommitNote:
        """Return the newest note, or one that says nothing."""
        return self.note or CommitNote(Op.APPEND, {})

    def forget_removed(self, before_ms: int) -> None:
        """Forget the files that left the table before then: no version that is kept has them."""
        while self.removed and next(iter(self.removed.values())).at_ms < before_ms:
            self.removed.popitem(last=False)

    def _fault_of(self, entry: MessagesEntry, stamp: Stamp | None, metadata: Mapping[str, Any] | None) -> str | None:
        if entry.version != self.version + 1:
            return f"version {entry.version} does not follow version {self.version}"
        if metadata is None and not self.metadata:
            return "there is no metaData"
        if metadata is not None and any(
            metadata.get(one) != self.metadata.get(one, metadata.get(one)) for one in _NEVER_CHANGES
        ):
            return "its metaData is that of another table"
        if stamp is None:
            return None
        if self.version >= 0 and stamp <= self.stamp:
            return f"commit {tuple(stamp)} after commit {tuple(self.stamp)}"
        unknown = (each.name for each in entry.removed if each.name not in self.live)
        return next((f"removes {name}, which is not in the table" for name in unknown), None)
