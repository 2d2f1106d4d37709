"""The rows that a branch begins with, copied by the settle job from the files of its origin to its own.

A file is read, filtered and written column by column; no message is looked at. The files are part of the commit that
settles the row which names them: all of them, or none where one can't be read, which the gateway sees.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import pyarrow as pa

from conf.error_text import error_text
from conf.log import log
from delta_store.entries.batch_layout import FolderRows
from delta_store.entries.batch_report import BatchReport, Told
from delta_store.entries.settled_file import decode
from delta_store.entries.staged_file import StagedFile
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.message_scan import chosen_rows
from delta_store.reading.message_slice import PartFile, SlicePart, unpacked
from delta_store.settling.staging import FileWriter, Staging, gathered
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored

_LOST: Final = (NotStored, pa.ArrowException, KeyError)


def with_bases(report: BatchReport, staging: Staging, storage: Storage) -> BatchReport:
    """Return the report of a batch with the files that its branches begin with. Raises ``StorageError``."""
    files: list[StagedFile] = []
    try:
        for told in report.told:
            if told.base:
                files += _copied(told, staging, storage)
    except BaseException:
        storage.delete(file.path for file in files)
        raise
    return report._replace(files=(*report.files, *files)) if files else report


def _copied(told: Told, staging: Staging, storage: Storage) -> list[StagedFile]:
    base = BranchBase.from_json(told.base)
    with FileWriter(staging) as writer:
        try:
            files = [
                writer.put(FolderRows(told.stream, folder, rows))
                for folder, held in groupby(_files(base.parts), key=lambda one: one[1].folder)
                for rows in gathered(_rows(held, told, base.first_seq, storage))
            ]
            writer.finish()
        except _LOST as error:
            writer.discard()
            log.warning("a branch can't be copied from its origin's files", stream=told.stream, error=error_text(error))
            return []
        except BaseException:
            writer.discard()
            raise
    return files


def _rows(
    files: Iterable[tuple[SlicePart, PartFile]], told: Told, first_seq: int, storage: Storage
) -> Iterator[pa.RecordBatch]:
    for part, file in files:
        rows = decode(storage.read(file.path), part.stream, file.folder)
        yield from _as_own(chosen_rows(rows, part, unpacked(part.evicted)), told, first_seq).to_batches()


def _files(parts: Iterable[SlicePart]) -> list[tuple[SlicePart, PartFile]]:
    """Return the files by folder, in the order of their messages."""
    files = [(part, file) for part in parts for file in part.files]
    return sorted(files, key=lambda one: (one[1].folder, one[1].first))


def _as_own(rows: pa.Table, told: Told, first_seq: int) -> pa.Table:
    """Return messages of the origin as the branch's: as if they had been stored there one after the other."""
    own: dict[str, str | int] = {
        "stream": told.stream,
        "stream_id": told.stream_id,
        "event_no": told.event_no - 1,
        "first_seq": first_seq,
        "evicts": 0,
    }
    for name, value in own.items():
        place = rows.schema.get_field_index(name)
        kind = pa.string() if isinstance(value, str) else pa.int64()
        rows = rows.set_column(place, name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
    return rows
