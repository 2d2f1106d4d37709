"""What settled rows tell of streams beyond the newest rows of ``heads``: read back from the files of ``messages``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from delta_store.entries import head_rows, removed_rows
from delta_store.entries.head_rows import HeadRow, Said, Settled
from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.reading.settled_files import MessageFiles
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.storage.storage import Storage
from delta_store.values.records import Kind, Position
from delta_store.values.watermark import Watermark, Watermarks

_UNKNOWN_NS: Final = 1 << 61
"""No file has rows as late as this: its statistics say nothing."""


class News(NamedTuple):
    """The files of a stream that may have rows above its newest head; those of consumers change nothing."""

    stream: str
    before: HeadRow | None
    files: Sequence[DataFile]

    @property
    def above(self) -> Position:
        """The position above which rows are new."""
        return self.before.position if self.before is not None else Position(0, 0, 0)


def of_batch(heads: Mapping[str, HeadRow], files: Iterable[DataFile]) -> list[News]:
    """Return the news in files that were just appended."""
    by_stream: dict[str, list[DataFile]] = {}
    for file in files:
        if not file.consumers_only:
            by_stream.setdefault(file.stream or "", []).append(file)
    return [News(stream, heads.get(stream), mine) for stream, mine in by_stream.items()]


def of_table(heads: Mapping[str, HeadRow], snapshot: Snapshot, marks: Watermarks) -> list[News]:
    """Return the news in a whole version."""
    found = []
    for stream in head_rows.behind(heads, marks):
        before = heads.get(stream)
        since = before.watermark if before is not None and before.stream_id == marks[stream].stream_id else 0
        mine = [file for file in snapshot.of_stream(stream) if not file.consumers_only and file.seq[1] >= since]
        found.append(News(stream, before, mine))
    return found


class NewsReader:
    """Reads the rows behind the news from the table in a storage. Raises ``FileGone``, ``DamagedData``."""

    def __init__(self, storage: Storage) -> None:
        filesystem, self._root = filesystem_of(storage.uri, storage.options)
        self._files = MessageFiles(filesystem, cache_bytes=0)

    def settled(self, news: News, mark: Watermark) -> Settled:
        """Return what is settled of the stream up to its watermark."""
        times = [file.ts_ns[1] for file in news.files if file.ts_ns[1] < _UNKNOWN_NS]
        before_ns = news.before.ts_ns if news.before is not None else 0
        return Settled(mark, max(times, default=before_ns), self._said(news, mark.stream_id))

    def effects(self, news: News, version: int) -> pa.Table:
        """Return what the new rows evict and remove, as rows of ``removed``."""
        found = []
        for file in news.files:
            if file.events_only:
                rows = self._read(file, removed_rows.EVENT_COLUMNS)
                found.append(removed_rows.removals(news.stream, rows, version=version, above=news.above))
            elif file.may_evict:
                rows = self._read(file, removed_rows.MESSAGE_COLUMNS)
                found.append(removed_rows.evictions(news.stream, rows, version=version, above=news.above))
        return removed_rows.joined(found)

    def _said(self, news: News, stream_id: int) -> Said | None:
        events = []
        for file in news.files:
            if file.events_only:
                rows = self._read(file, removed_rows.EVENT_COLUMNS)
                columns = (rows[name].to_pylist() for name in ("stream_id", "seq", "event_no", "kind", "data"))
                for *place, kind, data in zip(*columns, strict=True):
                    position = Position(*place)
                    told = kind in (Kind.STREAM, Kind.STREAM_DELETE)
                    if told and position.stream_id == stream_id and position > news.above:
                        events.append((position, kind, data))
        return head_rows.said_by(events)

    def _read(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        return self._files.columns(f"{self._root}/{file.path}", columns)
