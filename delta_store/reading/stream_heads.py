"""The existing streams at pinned versions of both tables: name, incarnation, configuration."""

import json
from functools import cached_property
from typing import Any

from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import Pinned
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_events import COLUMNS, StreamEvent, events_in
from delta_store.values.records import Kind
from delta_store.values.stream_head import Head


class PinnedHeads:
    """The heads of pinned versions, read when asked for."""

    def __init__(self, settled: SettledTable, journal: JournalTail, pinned: Pinned) -> None:
        self._settled, self._journal, self._pinned = settled, journal, pinned

    @cached_property
    def by_name(self) -> dict[str, Head]:
        """The existing streams, ascending by name. Raises ``DamagedData`` or ``FileGone``."""
        newest: dict[str, StreamEvent] = {}
        for event in sorted(self._events()):
            newest[event.stream] = event
        return {name: _head(event) for name, event in sorted(newest.items()) if event.kind == Kind.STREAM}

    def _events(self) -> list[StreamEvent]:
        found: list[StreamEvent] = []
        for file in self._pinned.settled.files.values():
            if file.events_only:
                rows = self._settled.columns([file], COLUMNS)
                found += events_in(rows, [file.stream or ""] * len(rows))
        for rows in self._journal.all_events(self._pinned.journal):
            found += events_in(rows, rows["stream"].to_pylist())
        return found


def _head(event: StreamEvent) -> Head:
    said: dict[str, Any] = json.loads(event.data)
    config = json.dumps(said["config"], separators=(",", ":"), ensure_ascii=False)
    return Head(event.stream, event.position.stream_id, int(said["created_ns"]), config)
