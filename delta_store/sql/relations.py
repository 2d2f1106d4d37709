"""Streams given to DuckDB as relations: settled files by name, unsettled rows as Arrow tables."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from delta_store.entries.settled_log import DataFile
from delta_store.sql.arrow_source import dataset_of
from delta_store.sql.duck_dialect import DuckDialect, is_pattern
from delta_store.sql.duck_session import DuckSession
from delta_store.sql.narrowing import EVERYTHING, Narrow
from delta_store.sql.store_state import StoreState, StreamAt, has_tail, is_alone, seqs_of, tail_evicts
from delta_store.sql.stream_relation import INLINE_RANGES_MAX, StreamRelation, live_messages, subject_condition
from delta_store.values.as_of import NOW, AsOf
from delta_store.values.subjects import SubjectFilter

_ALL: Final = SubjectFilter.everything()
_RANGES: Final = pa.schema([("low", pa.int64()), ("high", pa.int64())])


class Relations:
    """The relations of one statement. Used by one thread."""

    def __init__(self, session: DuckSession, state: StoreState) -> None:
        self._session, self._state = session, state
        self.dialect: Final = DuckDialect()
        self.files: set[str] = set()
        """The settled files that the relations read; probes for evictions, which read footers, are left out."""

    def messages(
        self, stream: str, as_of: AsOf = NOW, *, narrow: Narrow = EVERYTHING, subjects: SubjectFilter = _ALL
    ) -> str:
        """Return the query of a stream's live messages at a point, as :func:`live_messages` does.

        Raises ``NoSuchStream``, ``PastHorizon``, ``FileGone`` or ``DamagedData``.
        """
        at = self._state.at(stream, as_of)
        files = [file for file in at.files if narrow.admits(file)]
        relation = self._relation(at, files)
        bounds = [file.subject for file in files]
        if relation.tail is None and all(one is not None and subjects.matches_between(*one) for one in bounds):
            subjects = _ALL
        return live_messages(relation, self.dialect, subject_condition(subjects, self.dialect))

    def source(self, of: str, files: Sequence[DataFile]) -> str:
        """Return settled files of a stream, or of what else they are read for, as they stand behind FROM."""
        paths = [self._state.path_of(file) for file in files]
        self.files.update(paths)
        return self._source(of, paths)

    def table(self, rows: pa.Table) -> str:
        """Return an Arrow table as it stands behind FROM."""
        return self.dialect.name(self._session.table(rows))

    def _relation(self, at: StreamAt, files: Sequence[DataFile]) -> StreamRelation:
        """Return the relation of a stream's messages in some of its files, and of those that are not settled."""
        stream_id, cut = at.view.stream_id, at.cut
        ranges = tuple(one for one in cut.removed if one[1] >= cut.first_seq)
        few = len(ranges) <= INLINE_RANGES_MAX
        return StreamRelation(
            stream_id,
            settled=self.source(at.view.stream, files) if files else None,
            tail=self.table(self._state.tail(at)) if has_tail(at) or not files else None,
            up_to_seq=cut.up_to_seq,
            first_seq=cut.first_seq,
            ranges=ranges if few else (),
            range_table=None if few else self.table(_ranges(ranges)),
            evicting=self._evicting(at),
            tail_evicts=tail_evicts(at),
            oldest=None if at.max_age_ns is None else str(self._state.now_ns - at.max_age_ns),
            alone=is_alone(at, files),
            settled_seqs=seqs_of(files),
        )

    def _evicting(self, at: StreamAt) -> str | None:
        """Return the settled messages that may evict one, if any does: statistics or footers mostly rule it out."""
        paths = [self._state.path_of(file) for file in at.files if file.may_evict]
        if not paths:
            return None
        source = self._source(at.view.stream, paths)
        return source if self._session.holds(f"SELECT seq FROM {source} WHERE evicts > 0") else None

    def _source(self, of: str, paths: Sequence[str]) -> str:
        if self._state.is_local and not any(map(is_pattern, paths)):
            self._session.allow(of, paths)
            return self.dialect.parquet(paths)
        return self.dialect.name(self._session.table(dataset_of(self._state.settled.log.filesystem, paths)))


def _ranges(ranges: Sequence[tuple[int, int]]) -> pa.Table:
    return pa.table([[low for low, _ in ranges], [high for _, high in ranges]], schema=_RANGES)
