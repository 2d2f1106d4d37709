"""A stream's typed table with its dead letters: how far it has come, its rows taken in, taken out, merged.

Two tables can't be committed to at once: the dead letters come first. Where the table itself then stays behind, those
of them that are ahead of it are taken out before anything is added, so that each message ends up once in one of both.
"""

from enum import Enum
from typing import Final

import numpy as np

from conf.clock import Clock
from delta_store.beside.beside_table import BesideTable
from delta_store.beside.row_files import RowFiles
from delta_store.entries.beside_entry import BesideFile, BesideState, Change, NewTable
from delta_store.entries.settled_log import Int64s
from delta_store.entries.typed_files import TypedFiles
from delta_store.storage.storage import Storage
from delta_store.typed.column_types import Record, record_of, schema_string
from delta_store.typed.table_columns import DAY, REJECTS, STATISTICS, arrow_schema, row_of, with_day, without_own
from delta_store.typed.typing_terms import TypingTerms, decoder_of, goes_on

SEQ: Final = "silt-seq"
"""The ``txn`` action with the last sequence that a table has taken in."""
STREAM: Final = "silt.stream"
STREAM_ID: Final = "silt.stream_id"
KIND: Final = "silt.table"
"""Properties of a table: whose messages it has, and whether each is a row."""


class Standing(Enum):
    """How a table stands to what ``messages`` has of its stream."""

    LEVEL = "level"
    BEHIND = "behind"
    """It goes on from its mark."""
    ANEW = "anew"
    """Nothing of it can stay: it is of another stream, or of another schema."""


class TypedTable:
    """The table of one stream, for the owner of ``messages``. Not thread-safe."""

    def __init__(self, stream: str, *, epoch: int, clock: Clock, horizon_seconds: float) -> None:
        self.stream = stream
        self._epoch, self._clock, self._horizon_seconds = epoch, clock, horizon_seconds

    def open(self, storage: Storage, dead_letters: Storage, stream_id: int, terms: TypingTerms | None) -> None:
        """Open both tables, made if missing and there are ``terms``; raises as :meth:`BesideTable.open`."""
        options = {"epoch": self._epoch, "clock": self._clock, "horizon_seconds": self._horizon_seconds}
        new = None if terms is None else self._new(stream_id, terms)
        rejects = None if terms is None else self._new_rejects(stream_id)
        self.rows = BesideTable.open(storage, new, **options)  # type: ignore[arg-type]
        self.rejects = BesideTable.open(dead_letters, rejects, **options)  # type: ignore[arg-type]

    @property
    def mark(self) -> int:
        """The last sequence that the table has taken in."""
        return self.rows.state.txns.get(SEQ, 0)

    def terms(self, told: TypingTerms) -> TypingTerms:
        """Return the terms of the table as it is, by those of its stream: with its columns, if they are inferred."""
        return told.of_table(columns_of(self.rows.state)) if self.rows.state.version >= 0 else told

    def standing(self, stream_id: int, last_seq: int, terms: TypingTerms) -> Standing:
        """Compare with a stream that is settled up to ``last_seq``."""
        state, record = self.rows.state, decoder_of(terms.schema).record
        theirs = (state.properties.get(STREAM_ID), state.properties.get(KIND))
        columns = columns_of(state)
        if theirs != (str(stream_id), _kind(terms)) or self.mark > last_seq or not goes_on(columns, record):
            return Standing.ANEW
        return Standing.LEVEL if self.mark == last_seq and columns == record else Standing.BEHIND

    def take(self, files: TypedFiles, stream_id: int, last_seq: int, terms: TypingTerms, *, base: int) -> bool:
        """Commit the files of the messages behind ``base`` up to ``last_seq``; behind 0 they replace all that is there.

        Return False, and leave the rows as they are, when others have committed meanwhile.
        """
        new, new_rejects = self._new(stream_id, terms), self._new_rejects(stream_id)
        replaces = base == 0

        def rejects(state: BesideState) -> Change | None:
            ahead = replaces or state.txns.get(SEQ, 0) > base
            gone = {path for path, file in state.files.items() if ahead and (replaces or _ahead(file, base))}
            made = _renewed(self.rejects, new_rejects)
            if not gone and not files.rejected and made is None:
                return None
            return Change(files.rejected, gone, {SEQ: last_seq}, made)

        def rows(state: BesideState) -> Change | None:
            if not replaces and state.txns.get(SEQ, 0) != base:
                return None
            gone, added = set(state.files) if replaces else set(), list(files.rows)
            if terms.latest and not replaces:
                gone, kept = self._superseded(state, files, decoder_of(terms.schema).record)
                added += kept
            return Change(added, gone, {SEQ: last_seq}, _renewed(self.rows, new))

        self.rejects.commit(rejects)
        return self.rows.commit(rows) is not None

    def keep_only(self, live: Int64s) -> bool:
        """Take out the rows and dead letters of messages that are not among these sequences; whether there were any."""
        found = [files.keep("seq", lambda seqs: np.isin(seqs.to_numpy(), live)) for files in self._files()]
        return any(found)

    def forget(self) -> None:
        """Forget the mark, so that the table is made anew; until then it stays as it is."""
        self.rows.commit(lambda _: Change(txns={SEQ: 0}, data_change=False))

    def empty(self) -> None:
        """Take out everything, as of a stream that has no table any more."""
        for table in (self.rejects, self.rows):
            table.commit(lambda state: Change(removed=set(state.files), operation="DELETE") if state.files else None)

    def upkeep(self) -> None:
        """Merge the small files of partitions that have many; write checkpoints that are due."""
        for files in self._files():
            files.merge()
        for table in (self.rejects, self.rows):
            table.upkeep()

    def vacuum(self, horizon_seconds: float) -> int:
        """Delete what no version within a horizon needs; return the number of files."""
        return sum(table.vacuum(horizon_seconds) for table in (self.rejects, self.rows) if table.state.version >= 0)

    def _new(self, stream_id: int, terms: TypingTerms) -> NewTable:
        row = row_of(decoder_of(terms.schema).record)
        properties = {STREAM: self.stream, STREAM_ID: str(stream_id), KIND: _kind(terms)}
        if terms.latest:
            return NewTable(self.stream, schema_string(row), STATISTICS, (), properties)
        return NewTable(self.stream, schema_string(with_day(row)), STATISTICS, (DAY,), properties)

    def _new_rejects(self, stream_id: int) -> NewTable:
        properties = {STREAM: self.stream, STREAM_ID: str(stream_id), KIND: "dlq"}
        return NewTable(f"{self.stream} dlq", schema_string(with_day(REJECTS)), STATISTICS, (DAY,), properties)

    def _superseded(self, state: BesideState, files: TypedFiles, columns: Record) -> tuple[set[str], list[BesideFile]]:
        """Return the files with rows of subjects that have newer messages, and files of what else is in them."""
        found = RowFiles(self.rows, arrow_schema(row_of(columns)), epoch=self._epoch)
        subjects = set(files.gone)
        for file in files.rows:
            subjects.update(found.read(file, "subject")["subject"].to_pylist())
        return found.without(state, "subject", lambda names: [one not in subjects for one in names.to_pylist()])

    def _files(self) -> tuple[RowFiles, RowFiles]:
        """Return the files of dead letters and of rows."""
        rows = arrow_schema(row_of(columns_of(self.rows.state)))
        rejects = RowFiles(self.rejects, arrow_schema(REJECTS), epoch=self._epoch)
        return rejects, RowFiles(self.rows, rows, epoch=self._epoch)


def columns_of(state: BesideState) -> Record:
    """Return the columns of the payload in a typed table."""
    return without_own(record_of(state.metadata["schemaString"]))


def _kind(terms: TypingTerms) -> str:
    return "latest" if terms.latest else "append"


def _renewed(table: BesideTable, new: NewTable) -> dict[str, object] | None:
    """Return the ``metaData`` that a table needs to be this one; None when it is."""
    made = table.creation(new).metadata
    assert made is not None
    known = table.state.metadata
    same = all(made[key] == known.get(key) for key in ("schemaString", "partitionColumns", "configuration"))
    return None if same else dict(made)


def _ahead(file: BesideFile, mark: int) -> bool:
    bounds = file.bounds("seq")
    return bounds is not None and bounds[0] > mark
