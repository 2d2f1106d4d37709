"""The function that executors run on messages of streams with a schema: typed rows and dead letters into durable files.

Nothing names the files until the driver commits them, after the batch itself. It knows nothing of the driver's process.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_store.beside.beside_table import write_file
from delta_store.entries.beside_entry import BesideFile
from delta_store.entries.typed_files import TypedFiles
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.typed.payload_decoder import Unforeseen
from delta_store.typed.table_columns import DAY, STATISTICS
from delta_store.typed.table_folders import table_folder
from delta_store.typed.typed_rows import MESSAGE_COLUMNS, by_day, last_of_subjects, typed
from delta_store.typed.typing_terms import TypingTerms, decoder_of
from delta_store.values.records import Kind


class TypedTarget(NamedTuple):
    """The typed table of a stream, as those need it who write its files; goes to the executors with the task."""

    stream: str
    stream_id: int
    terms: TypingTerms
    epoch: int
    """Of the owner of ``messages``."""


class TypedPlace(NamedTuple):
    """The location of the data, and the tables in it that a batch is written for."""

    data: str
    options: Mapping[str, str]
    targets: tuple[TypedTarget, ...] = ()


NO_TABLES: Final = TypedPlace("", {})


class TypedWriters:
    """The writers of one attempt of a task, one for each target."""

    def __init__(self, place: TypedPlace) -> None:
        self._writers = [TypedWriter(place, target) for target in place.targets]

    def take(self, rows: pa.Table) -> None:
        """Write the messages of the targets among rows of ``messages``."""
        there = set(pc.unique(rows["stream"]).to_pylist()) if self._writers else set()
        for writer in (one for one in self._writers if one.target.stream in there):
            mine = pc.and_(
                pc.and_(pc.equal(rows["stream"], writer.target.stream), pc.equal(rows["kind"], Kind.MESSAGE.value)),
                pc.equal(rows["stream_id"], writer.target.stream_id),
            )
            writer.take(rows.filter(mine).select(MESSAGE_COLUMNS))

    def end(self) -> tuple[TypedFiles, ...]:
        """Write what was kept until now; return the files of each target, which may be none."""
        return tuple(writer.end() for writer in self._writers)

    def discard(self) -> None:
        """Delete the files: nobody will commit them."""
        for writer in self._writers:
            writer.discard()


class TypedWriter:
    """The files of one target, in one attempt to write them."""

    def __init__(self, place: TypedPlace, target: TypedTarget) -> None:
        self.target = target
        self._storages = {it: typed_storage(place, target.stream, dead_letters=it) for it in (False, True)}
        self._decoder = decoder_of(target.terms.schema)
        self._stale = False
        """Whether the table has not the columns for the messages."""
        self._files: list[BesideFile] = []
        self._rejected: list[BesideFile] = []
        self._last: dict[str, int] = {}
        """Of a table with one row a subject: the last message of each."""
        self._held: list[pa.Table] = []
        """Its rows."""

    def take(self, messages: pa.Table) -> None:
        """Write the rows and dead letters of messages, in any order."""
        if self._stale or not messages.num_rows:
            return
        try:
            found = typed(messages, self._decoder)
        except Unforeseen:
            self._stale = True
            self.discard()
            return
        for day, rows in by_day(found.rejected):
            self._rejected.append(self._write(rows, day, dead_letters=True))
        if not self.target.terms.latest:
            self._files += [self._write(rows, day) for day, rows in by_day(found.rows)]
            return
        for subject, seq in zip(messages["subject"].to_pylist(), messages["seq"].to_pylist(), strict=True):
            if seq > self._last.get(subject, 0):
                self._last[subject] = seq
        self._held = [last_of_subjects(pa.concat_tables([*self._held, found.rows]))]

    def end(self) -> TypedFiles:
        """Write the rows that were held; return all files."""
        if self._stale:
            return TypedFiles(self.target.stream, stale=True)
        gone = dict(self._last)
        for rows in self._held:
            newest = [
                gone.get(subject) == seq
                for subject, seq in zip(rows["subject"].to_pylist(), rows["seq"].to_pylist(), strict=True)
            ]
            kept = rows.filter(pa.array(newest, pa.bool_()))
            for subject in kept["subject"].to_pylist():
                del gone[subject]
            self._files += [self._write(kept, None)] if kept.num_rows else []
        return TypedFiles(self.target.stream, tuple(self._files), tuple(self._rejected), tuple(gone))

    def discard(self) -> None:
        """Delete the files: nobody will commit them."""
        for dead_letters, files in ((False, self._files), (True, self._rejected)):
            self._storages[dead_letters].delete(file.path for file in files)

    def _write(self, rows: pa.Table, day: str | None, *, dead_letters: bool = False) -> BesideFile:
        partition = () if day is None else ((DAY, day),)
        storage = self._storages[dead_letters]
        return write_file(storage, rows, epoch=self.target.epoch, names=STATISTICS, partition=partition)


def typed_storage(place: TypedPlace, stream: str, *, dead_letters: bool = False) -> Storage:
    """Open the storage of a stream's table, or of its dead letters."""
    return open_storage(f"{place.data}/{table_folder(stream, dead_letters=dead_letters)}", place.options)
