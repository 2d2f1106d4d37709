"""Rows of ``messages`` staged as an executor stages them, without Spark, for tests of the committer."""

import json
import secrets
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any
from zlib import crc32

import pyarrow as pa

from conf.clock import Clock
from delta_store.entries.settled_file import encode
from delta_store.entries.staged_file import STATISTICS, StagedFile, Writing, staged_path
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.storage import Blob, Storage
from delta_store.values.records import Kind, Row, stored_size
from delta_store.values.schemas import EVENTS_PARTITION, MESSAGES_SCHEMA
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark

_DAY_SECONDS = 86_400.0


def place_of(row: Row) -> tuple[str, str]:
    """Return a row's partition values."""
    return row.stream, row.subject if row.kind == Kind.MESSAGE else EVENTS_PARTITION


def settled_values(row: Row) -> tuple[Any, ...]:
    """Return a row's values in the columns of ``messages``."""
    return (*row, stored_size(row.subject, row.headers, row.data), place_of(row)[1])


def stage(storage: Storage, rows: Iterable[Row], writing: Writing) -> list[StagedFile]:
    """Write rows durably, a file for each stream and subject."""
    grouped = groupby(sorted(rows, key=lambda row: (*place_of(row), row.position)), key=place_of)
    return [_staged(storage, list(of_file), place, writing, at) for at, (place, of_file) in enumerate(grouped)]


def _staged(storage: Storage, rows: list[Row], place: tuple[str, str], writing: Writing, number: int) -> StagedFile:
    values = list(map(settled_values, rows))
    columns = [
        pa.array(column, one.type) for column, one in zip(zip(*values, strict=True), MESSAGES_SCHEMA, strict=True)
    ]
    table = pa.table(columns, schema=MESSAGES_SCHEMA)
    body = encode(table).body.to_pybytes()
    path = staged_path(writing, *place, number=number, unique=secrets.token_hex(8))
    storage.write(Blob(path, body))
    return StagedFile(path, *place, len(body), len(values), crc32(body), stats_of(table))


def stats_of(table: pa.Table) -> str:
    """Return Delta's statistics of rows."""
    columns = {name: [one for one in table[name].to_pylist() if one is not None] for name in STATISTICS}
    low, high = ({name: choose(have) for name, have in columns.items() if have} for choose in (min, max))
    nulls = {name: table.num_rows - len(have) for name, have in columns.items()}
    return json.dumps({"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def open_owner(storage: Storage, clock: Clock, *, horizon_seconds: float = _DAY_SECONDS) -> SettledOwner:
    """Open and claim the table in a storage."""
    owner = SettledOwner.open(storage, clock=clock, horizon_seconds=horizon_seconds)
    owner.claim()
    return owner


def append_note(owner: SettledOwner, rows: Sequence[Row]) -> CommitNote:
    """Return the note of an append of these rows, of which each stream's are in order."""
    marks, added = dict(owner.note.watermarks), dict[str, int]()
    for row in rows:
        marks[row.stream] = Watermark(row.stream_id, row.seq, row.event_no, row.first_seq)
        added[row.stream] = added.get(row.stream, 0) + 1
    return CommitNote(Op.APPEND, marks, owner.note.batch + 1, Claim(owner.snapshot.rows + len(rows), added))


def settle(owner: SettledOwner, rows: Sequence[Row]) -> int:
    """Stage and append rows; return the version."""
    note = append_note(owner, rows)
    return owner.append(stage(owner.storage, rows, Writing(owner.epoch, note.batch)), note)
