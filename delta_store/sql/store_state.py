"""The store as one statement sees it: both tables at one version each, streams at any point of them."""

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import is_
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from delta_store.entries.settled_log import DataFile
from delta_store.reading.cut_points import point_of
from delta_store.reading.journal_scan import unsettled
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.kept_points import read_view
from delta_store.reading.point_in_time import Pinned, PointInTime, View
from delta_store.reading.settled import SettledTable
from delta_store.reading.state_at import END, Cut
from delta_store.reading.stream_heads import PinnedHeads
from delta_store.reading.stream_versions import settlings
from delta_store.sql.report_relation import StreamReport
from delta_store.values.as_of import NOW, AsOf
from delta_store.values.read_errors import NoSuchStream, PastHorizon
from delta_store.values.records import Kind
from delta_store.values.schemas import JOURNAL_SCHEMA
from delta_store.values.settling import Settling
from delta_store.values.stream_head import Head


class StreamAt(NamedTuple):
    """A stream at a point."""

    view: View
    version: int
    """The version of ``messages`` with the settled part."""
    files: list[DataFile]
    """Settled messages; of other incarnations too, and behind the point."""
    cut: Cut
    max_age_ns: int | None
    """Messages that are older now have outlived ``max_age``, recorded or not; None for no such limit."""


class Known(NamedTuple):
    """What was found out about pinned versions; several states may share it."""

    pinned: Pinned
    heads: PinnedHeads
    views: dict[str, View]


class StoreState:
    """Both tables at pinned versions; every method but the heads' names reads one stream. Used by one thread."""

    def __init__(self, settled: SettledTable, journal: JournalTail, *, now_ns: int, known: Known | None = None) -> None:
        """Pin the newest versions; ``known`` counts if it is of the same. Raises ``DamagedData``."""
        self.settled, self.journal, self.now_ns = settled, journal, now_ns
        self._past = PointInTime(settled, journal)
        self.pinned = self._past.pinned()
        if known is None or not all(map(is_, known.pinned, self.pinned)):
            known = Known(self.pinned, PinnedHeads(settled, journal, self.pinned), {})
        self.known: Final = known
        self._tails: dict[str, Any] = {}

    @property
    def versions(self) -> tuple[int, int]:
        """The pinned versions of ``journal`` and ``messages``."""
        return self.pinned.journal.version, self.pinned.settled.version

    @property
    def heads(self) -> dict[str, Head]:
        """The existing streams by name."""
        return self.known.heads.by_name

    def view(self, stream: str) -> View:
        """Return a stream at the pinned versions. Raises ``NoSuchStream``."""
        views = self.known.views
        if stream not in views:
            views[stream] = self._past.view(stream, self.pinned)
        return views[stream]

    def exists(self, stream: str) -> bool:
        """Whether there is a stream of this name."""
        try:
            self.view(stream)
        except NoSuchStream:
            return False
        return True

    def at(self, stream: str, as_of: AsOf = NOW) -> StreamAt:
        """Return a stream at a point.

        Raises ``NoSuchStream``, ``NoSuchCut``, ``PastHorizon``, ``FileGone`` or ``DamagedData``.
        """
        return read_view(self._past, self.view(stream), lambda view: self._at(view, as_of))

    def _at(self, view: View, as_of: AsOf) -> StreamAt:
        point = point_of(self._past, view, as_of)
        if point.seq <= 0:
            return StreamAt(view, -1, [], Cut(0, 1, ()), None)
        base, cut = self._past.past(view, point)
        files = [one for one in base.of_stream(view.stream) if one.has_messages and one.seq[0] <= cut.up_to_seq]
        self._require(view.stream, [one for one in files if one.path not in self.pinned.settled.files])
        return StreamAt(view, base.version, files, cut, _max_age(view) if as_of == NOW else None)

    def tail(self, at: StreamAt) -> Any:
        """Return the unsettled messages up to the point, verified, as an Arrow table with the journal's columns.

        Raises as :meth:`at`.
        """
        if not has_tail(at):
            return JOURNAL_SCHEMA.empty_table()
        tail = self._tail(at.view)
        return tail.filter(pc.less_equal(tail["seq"], at.cut.up_to_seq)) if at.cut.up_to_seq < END else tail

    def report(self, head: Head, raw: str) -> StreamReport:
        """Return what is told of a stream, whose live messages the query ``raw`` gives. Raises as :meth:`at`."""
        at = self.at(head.stream)
        return StreamReport(head, raw, at.cut.first_seq, at.view.last_seq, at.view.settled_seq)

    def consumer_events(self) -> tuple[list[DataFile], Any]:
        """Return the settled files of events, where those of consumers are, and the unsettled rows of all streams."""
        files = [one for one in self.pinned.settled.files.values() if not one.has_messages]
        return files, unsettled(self.journal, self.pinned.journal, self.pinned.settled.watermarks)

    def settlings(self, stream: str) -> Iterator[Settling]:
        """Iterate over the versions of ``messages`` that settled messages of a stream, newest first."""
        return settlings(self.settled, self.view(stream))

    def path_of(self, file: DataFile) -> str:
        """Return the path of a settled file."""
        return self.settled.log.path_of(file)

    @cached_property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return "://" not in self.settled.log.location

    def _require(self, stream: str, old: Iterable[DataFile]) -> None:
        """Raise ``PastHorizon`` where vacuum has deleted a local file that no newer version has."""
        if self.is_local and not all(Path(self.path_of(file)).exists() for file in old):
            raise PastHorizon(stream, None)

    def _tail(self, view: View) -> Any:
        if view.stream not in self._tails:
            rows = unsettled(self.journal, self.pinned.journal, self.pinned.settled.watermarks, view.stream)
            chosen = pc.and_(pc.equal(rows["stream_id"], view.stream_id), pc.equal(rows["kind"], Kind.MESSAGE.value))
            self._tails[view.stream] = rows.filter(chosen)
        return self._tails[view.stream]


def _max_age(view: View) -> int | None:
    """Return how old a message grows by the newest configuration, ns.

    None in streams with TTLs of single messages: some never grow too old, so there only recorded removals count.
    """
    newest = max(event for event in view.events if event.kind == Kind.STREAM)
    config: dict[str, Any] = json.loads(newest.data)["config"]
    max_age = 0 if config.get("allow_msg_ttl") else int(config.get("max_age", 0))
    return max_age if max_age > 0 else None


def is_alone(at: StreamAt, files: Iterable[DataFile]) -> bool:
    """Whether files of messages have none of other incarnations of the stream."""
    return all(one.stream_ids == (at.view.stream_id, at.view.stream_id) for one in files)


def seqs_of(files: Iterable[DataFile]) -> tuple[int, int]:
    """Return the lowest and the highest sequence that files may hold."""
    bounds = [one.seq for one in files]
    return min((low for low, _ in bounds), default=1), max((high for _, high in bounds), default=0)


def has_tail(at: StreamAt) -> bool:
    """Whether there may be unsettled rows up to the point."""
    return at.view.tail is not None and len(at.view.tail) > 0 and at.cut.up_to_seq > at.view.settled_seq


def tail_evicts(at: StreamAt) -> bool:
    """Whether an unsettled row may evict a message."""
    return has_tail(at) and bool(pc.any(pc.greater(at.view.tail["evicts"], 0)).as_py())
