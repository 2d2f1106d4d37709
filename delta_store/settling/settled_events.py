"""The rows of ``messages`` that tell of streams, read without Spark: they are few."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from delta_store.entries.batch_layout import told_by
from delta_store.entries.batch_report import Told
from delta_store.entries.settled_log import Snapshot
from delta_store.reading.settled_files import MessageFiles
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.records import Kind, Position

_COLUMNS = ("stream_id", "seq", "event_no", "kind", "data")


class StreamEvent(NamedTuple):
    """A STREAM or STREAM_DELETE row."""

    position: Position
    stream: str
    kind: str
    data: bytes


def stream_events(snapshot: Snapshot, location: str, options: Mapping[str, str]) -> list[StreamEvent]:
    """Return those of a version, in their order. Raises ``FileGone`` or ``DamagedData``."""
    filesystem, root = filesystem_of(location, options)
    files, found = MessageFiles(filesystem, cache_bytes=0), []
    for file in snapshot.files.values():
        if file.events_only:
            rows = files.columns(f"{root}/{file.path}", _COLUMNS)
            for *place, kind, data in zip(*(rows[name].to_pylist() for name in _COLUMNS), strict=True):
                if kind in (Kind.STREAM, Kind.STREAM_DELETE):
                    found.append(StreamEvent(Position(*place), file.stream or "", kind, data))
    return sorted(found)


def told_in(events: Iterable[StreamEvent]) -> list[Told]:
    """Return what the STREAM rows among them say."""
    return [told_by(one.position, one.stream, one.data) for one in events if one.kind == Kind.STREAM]


def existing_in(events: Iterable[StreamEvent]) -> set[str]:
    """Return the streams that are not deleted."""
    newest = {one.stream: one.kind for one in events}
    return {stream for stream, kind in newest.items() if kind == Kind.STREAM}
