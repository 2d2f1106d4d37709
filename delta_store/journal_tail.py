"""Reads the journal without being its owner: the rows that are not settled yet.

The journal's files hold rows of many streams in commit order and stay few, because what is settled is truncated. A
file that a pinned version names may be truncated away under the reader: ``FileGone`` says so, and a fresh view helps.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.journal_metadata import JournalMetadata
from delta_store.log_entry import JournalFile
from delta_store.log_follower import LogFollower
from delta_store.read_errors import FileGone
from delta_store.records import Position
from delta_store.settled_files import MessageFiles
from delta_store.settled_log import DataFile, Snapshot, data_file
from delta_store.stored_message import StoredMessage

CACHE_BYTES: Final = 32 * 1024 * 1024


class JournalTail:
    """The journal's live rows, read-only and thread-safe."""

    def __init__(
        self, location: str, *, storage_options: Mapping[str, str] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """``location`` is the table's folder or URL; the table need not exist yet."""
        self.log = LogFollower(location, storage_options=storage_options, settled=False)
        self.files = MessageFiles(self.log.filesystem, cache_bytes=cache_bytes)
        self._metadata = JournalMetadata(self.files, self.log.path_of)

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that :meth:`refresh` has seen."""
        return self.log.snapshot

    def start(self, version: int, files: Iterable[JournalFile]) -> None:
        """Go on from a version whose files the journal's owner knows, instead of reading the whole log again."""
        known = (_as_data_file(file) for file in files)
        self.log.start(Snapshot(version, {file.path: file for file in known}, {}))

    def refresh(self) -> Snapshot:
        """Read the log entries that came since. Raises ``DamagedData``."""
        return self.log.refresh()

    def rows_of(self, snapshot: Snapshot, stream: str, *, above: Position | None) -> Any:
        """The stream's rows behind ``above`` (all without it) without payloads, as an Arrow table; None without files.

        Rows come in no particular order, and of all incarnations of the stream that the journal still holds.
        """
        tables = []
        for table, _ in self._metadata.of(snapshot.of_stream(stream)):
            chosen = pc.equal(table["stream"], stream)
            if above is not None:
                chosen = pc.and_(chosen, behind(table, above))
            tables.append(table.filter(chosen))
        return pa.concat_tables(tables).unify_dictionaries() if tables else None

    def events_of(self, snapshot: Snapshot, stream: str) -> list[Any]:
        """The stream's event rows with their data, consumers' left out, as Arrow tables in no particular order."""
        tables = [found.events for found in self._metadata.of(snapshot.of_stream(stream))]
        return [table.filter(pc.equal(table["stream"], stream)) for table in tables if table is not None]

    def fetch(self, snapshot: Snapshot, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StoredMessage]:
        """Messages by sequence; those that the version does not hold are left out."""
        wanted = np.unique(np.asarray(seqs, dtype=np.int64))
        found: dict[int, StoredMessage] = {}
        for file in snapshot.holding(stream, wanted):
            for run in self.files.fetch(self.log.path_of(file), stream, stream_id, wanted):
                found.update(zip(run.seqs, run, strict=True))
        return found

    def current(self, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StoredMessage]:
        """:meth:`fetch` from the newest version; nothing when truncation was faster, for the caller to look again."""
        try:
            return self.fetch(self.refresh(), stream, stream_id, seqs)
        except FileGone:
            return {}


def _as_data_file(file: JournalFile) -> DataFile:
    stats = json.loads(file.stats)
    low, high = stats["minValues"], stats["maxValues"]
    return data_file(file.name, rows=file.rows, partition=(None, None), low=low, high=high)


def behind(table: Any, above: Position) -> Any:
    """Which rows stand behind a position; compared column by column, most significant first."""
    names = ("stream_id", "seq", "event_no")
    further = pc.greater(table[names[2]], above.event_no)
    for name, value in zip(names[1::-1], above[1::-1], strict=True):
        equal = pc.equal(table[name], value)
        further = pc.or_(pc.greater(table[name], value), pc.and_(equal, further))
    return further
