"""The rows that a branch begins with, taken by the settle job from the files of its origin.

A file that is the branch's as a whole is shared (:mod:`delta_store.settling.taken_files`); any other is read, filtered
and written column by column, and no message is looked at. The files are part of the commit that settles the row which
names them: all of them, or none where one can't be read, which the gateway sees.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

import pyarrow as pa

from conf.error_text import error_text
from conf.log import log
from delta_store.entries.batch_layout import FolderRows
from delta_store.entries.batch_report import BatchReport, Told
from delta_store.entries.settled_file import decode
from delta_store.entries.settled_log import DataFile, Int64s
from delta_store.entries.staged_file import StagedFile
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.message_scan import chosen_rows
from delta_store.reading.message_slice import SlicePart, unpacked
from delta_store.settling.staging import FileWriter, Staging, gathered
from delta_store.settling.taken_files import TakenFiles
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData, FileGone

_LOST: Final = (NotStored, pa.ArrowException, LookupError, ValueError, DamagedData, FileGone)


def with_bases(report: BatchReport, staging: Staging, storage: Storage, known: Mapping[str, DataFile]) -> BatchReport:
    """Return the report of a batch with the files that its branches begin with; ``known`` are the table's.

    Raises ``StorageError``.
    """
    files: list[StagedFile] = []
    try:
        for told in report.told:
            if told.base:
                files += _Base(told, storage).files(staging, TakenFiles(storage, known))
    except BaseException:
        storage.delete(file.path for file in files)
        raise
    return report._replace(files=(*report.files, *files)) if files else report


class _Base:
    """The rows that one branch begins with."""

    def __init__(self, told: Told, storage: Storage) -> None:
        self._told, self._storage = told, storage
        self._base = BranchBase.from_json(told.base)
        self._own = {
            "stream_id": told.stream_id,
            "event_no": told.event_no - 1,
            "first_seq": self._base.first_seq,
            "evicts": 0,
        }
        """Columns as if the messages had been stored in the branch one after the other."""

    def files(self, staging: Staging, shared: TakenFiles) -> list[StagedFile]:
        """Write the files; return none where one can't be read."""
        with FileWriter(staging) as writer:
            try:
                files = list(self._written(writer, shared))
                writer.finish()
                number = {"shared_files": shared.taken, "other_files": len(files) - shared.taken}
                log.info("a branch begins with its origin's files", stream=self._told.stream, **number)
            except _LOST as error:
                writer.discard()
                what = "a branch can't be copied from its origin's files"
                log.warning(what, stream=self._told.stream, error=error_text(error))
                return []
            except BaseException:
                writer.discard()
                raise
        return files

    def _written(self, writer: FileWriter, shared: TakenFiles) -> Iterator[StagedFile]:
        stream, parted = self._told.stream, []
        for part in self._base.parts:
            evicted = unpacked(part.evicted)
            for file in part.files:
                taken = shared.take(writer, part, file, evicted, stream=stream, own=self._own)
                if taken is None:
                    parted.append((part._replace(files=(file,)), evicted))
                else:
                    yield taken
        parted.sort(key=lambda one: (one[0].files[0].folder, one[0].files[0].first))
        for folder, held in groupby(parted, key=lambda one: one[0].files[0].folder):
            for rows in gathered(self._rows(held)):
                yield writer.put(FolderRows(stream, folder, rows))

    def _rows(self, held: Iterable[tuple[SlicePart, Int64s]]) -> Iterator[pa.RecordBatch]:
        for part, evicted in held:
            [file] = part.files
            body = self._storage.read(file.path)
            try:
                rows = decode(body, part.stream, file.folder)
            except OSError as error:
                raise DamagedData(file.path, str(error)) from error
            yield from self._as_own(chosen_rows(rows, part, evicted)).to_batches()

    def _as_own(self, rows: pa.Table) -> pa.Table:
        columns = {name: pa.scalar(value, pa.int64()) for name, value in self._own.items()}
        for name, value in {"stream": pa.scalar(self._told.stream), **columns}.items():
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, pa.repeat(value, rows.num_rows))
        return rows
