"""Reads the journal without being its owner: the rows that are not settled yet.

The journal's files hold rows of many streams in commit order and stay few, because what is settled is truncated. A
file that a pinned version names may be truncated away under the reader: ``FileGone`` says so, and a fresh view helps.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.log_follower import LogFollower
from delta_store.records import Position
from delta_store.settled_files import MessageFiles
from delta_store.settled_log import DataFile, Snapshot
from delta_store.stored_message import StoredMessage

CACHE_BYTES: Final = 32 * 1024 * 1024
_POSITION: Final = ("stream", "stream_id", "seq", "event_no")


class JournalTail:
    """The journal's live rows, read-only and thread-safe."""

    def __init__(
        self, location: str, *, storage_options: Mapping[str, str] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """``location`` is the table's folder or URL; the table need not exist yet."""
        self.log = LogFollower(location, storage_options=storage_options, settled=False)
        self.files = MessageFiles(self.log.filesystem, cache_bytes=cache_bytes)

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that :meth:`refresh` has seen."""
        return self.log.snapshot

    def refresh(self) -> Snapshot:
        """Read the log entries that came since. Raises ``DamagedData``."""
        return self.log.refresh()

    def rows_of(self, snapshot: Snapshot, stream: str, names: Sequence[str], *, above: Position | None) -> Any:
        """The stream's rows behind ``above`` (all without it), as an Arrow table of position and ``names``; or None.

        Rows come in no particular order, and of all incarnations of the stream that the journal still holds.
        """
        columns = list(dict.fromkeys((*_POSITION, *names)))
        tables = [self._rows(file, stream, columns, above) for file in snapshot.of_stream(stream)]
        return pa.concat_tables(tables).unify_dictionaries() if tables else None

    def fetch(self, snapshot: Snapshot, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StoredMessage]:
        """Messages by sequence; those that the version does not hold are left out."""
        wanted = np.unique(np.asarray(seqs, dtype=np.int64))
        found: dict[int, StoredMessage] = {}
        for file in snapshot.holding(stream, wanted):
            messages = self.files.fetch(self.log.path_of(file), stream, stream_id, wanted)
            found.update((message.seq, message) for message in messages)
        return found

    def whole_files(self, files: Sequence[DataFile], names: Sequence[str]) -> Iterator[Any]:
        """The columns of each file in turn, rows in commit order."""
        for file in files:
            yield self.files.columns(self.log.path_of(file), names)

    def _rows(self, file: DataFile, stream: str, columns: Sequence[str], above: Position | None) -> Any:
        table = self.files.columns(self.log.path_of(file), columns)
        chosen = pc.equal(table["stream"], stream)
        if above is not None:
            chosen = pc.and_(chosen, _behind(table, above))
        return table.filter(chosen)


def _behind(table: Any, above: Position) -> Any:
    """Which rows stand behind a position; compared column by column, most significant first."""
    names = ("stream_id", "seq", "event_no")
    behind = pc.greater(table[names[2]], above.event_no)
    for name, value in zip(names[1::-1], above[1::-1], strict=True):
        equal = pc.equal(table[name], value)
        behind = pc.or_(pc.greater(table[name], value), pc.and_(equal, behind))
    return behind
