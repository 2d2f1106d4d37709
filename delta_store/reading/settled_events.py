"""The rows of ``messages`` that tell of streams, read without Spark: they are few."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from delta_store.entries.batch_layout import told_by
from delta_store.entries.batch_report import Told
from delta_store.entries.settled_log import Snapshot
from delta_store.reading.settled_files import MessageFiles
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.records import Kind, Position

COLUMNS = ("stream_id", "seq", "event_no", "kind", "data")


class StreamEvent(NamedTuple):
    """A STREAM or STREAM_DELETE row."""

    position: Position
    stream: str
    kind: str
    data: bytes


def stream_events(snapshot: Snapshot, location: str, options: Mapping[str, str]) -> list[StreamEvent]:
    """Return those of a version, in their order. Raises ``FileGone`` or ``DamagedData``."""
    filesystem, root = filesystem_of(location, options)
    files = MessageFiles(filesystem, cache_bytes=0)
    tables = (
        (file.stream or "", files.columns(f"{root}/{file.path}", COLUMNS))
        for file in snapshot.files.values()
        if file.events_only
    )
    return sorted(event for stream, rows in tables for event in events_in(rows, [stream] * len(rows)))


def events_in(rows: Any, streams: Iterable[str]) -> Iterator[StreamEvent]:
    """Iterate over those in an Arrow table with :data:`COLUMNS`; ``streams`` names the stream of each row."""
    for stream, *place, kind, data in zip(streams, *(rows[name].to_pylist() for name in COLUMNS), strict=True):
        if kind in (Kind.STREAM, Kind.STREAM_DELETE):
            yield StreamEvent(Position(*place), stream, kind, data)


def told_in(events: Iterable[StreamEvent]) -> list[Told]:
    """Return what the STREAM rows among them say."""
    return [told_by(one.position, one.stream, one.data) for one in events if one.kind == Kind.STREAM]


def existing_in(events: Iterable[StreamEvent]) -> set[str]:
    """Return the streams that are not deleted."""
    newest = {one.stream: one.kind for one in events}
    return {stream for stream, kind in newest.items() if kind == Kind.STREAM}
