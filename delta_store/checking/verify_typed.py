"""Verification of typed tables: their logs and files, and their rows against the messages that they were made of.

They are derived, so whatever is found can be made good. Reads only, and may run beside a settle job: a table is pinned
before ``messages``, which may be ahead. One that is to be made anew or emptied is held to its own log and files alone.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from conf.data_location import DataLocation
from delta_store.beside import typed_reader
from delta_store.beside.typed_reader import TypedTableRead
from delta_store.beside.typed_table import STREAM_ID
from delta_store.checking.beside_log import read_verified, seen_of
from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.entries.settled_log import Int64s
from delta_store.heads.stored_rows import read_rows
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_events import existing_in, stream_events, told_in
from delta_store.storage.open_storage import open_storage
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import Record
from delta_store.typed.inferred_schema import InferredDecoder
from delta_store.typed.json_schema import JsonDecoder
from delta_store.typed.payload_decoder import PayloadDecoder, Unforeseen, is_marker
from delta_store.typed.table_columns import DAY, arrow_schema, without_own
from delta_store.typed.table_folders import DEAD_LETTERS
from delta_store.typed.typed_rows import MESSAGE_COLUMNS, typed
from delta_store.typed.typing_terms import decoder_of, goes_on, terms_in
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.schemas import MESSAGES_FOLDER
from delta_store.values.stream_message import MessageRun

_NONE: Final = np.empty(0, dtype=np.int64)
_MESSAGE_TYPES: Final = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.binary(), pa.binary())
_FETCHED: Final = 10_000
"""Messages that are looked at together."""
_LOOKS: Final = 3


class TypedLook(NamedTuple):
    """The outcome of verifying all typed tables."""

    seen: tuple[Seen, ...]
    findings: tuple[Finding, ...]


class _Origin(NamedTuple):
    """The messages that a table was made of."""

    settled: SettledTable
    stream: str
    stream_id: int
    up_to: int
    """The last sequence that the table has taken in."""
    decoder: PayloadDecoder | None
    """None where what it says now need not be what it said when the rows were made."""

    def run(self, seqs: Int64s) -> MessageRun:
        """Return those of some messages, by sequence, that are there."""
        return self.settled.fetch_run(self.stream, self.stream_id, np.sort(seqs).tolist())

    def columns(self, *names: str) -> pa.Table | None:
        """Return columns of all of them."""
        files = [file for file in self.settled.snapshot.of_stream(self.stream) if file.has_messages]
        rows = self.settled.columns(files, ("stream_id", "seq", *names))
        if rows is None:
            return None
        mine = (rows["stream_id"].to_numpy() == self.stream_id) & (rows["seq"].to_numpy() <= self.up_to)
        return rows.filter(pa.array(mine))


def look_at_typed(data: DataLocation) -> TypedLook:
    """Verify all tables. Raises ``StorageError`` where they can't be read at all.

    A table and its dead letters are pinned one after the other, so what is found while they move is looked at again.
    """
    for _ in range(_LOOKS - 1):
        look = _look(data)
        now = {folder: table.state.version for folder, table in _tables(data, []).items()}
        if not look.findings or now == {one.table: one.version for one in look.seen}:
            return look
    return _look(data)


def _tables(data: DataLocation, found: list[Finding]) -> dict[str, TypedTableRead]:
    """Return the tables whose logs can be read, by folder."""
    read = ((folder, _read(data, folder, found)) for folder in typed_reader.folders(data.uri, data.options))
    return {folder: table for folder, table in read if table is not None}


def _read(data: DataLocation, folder: str, found: list[Finding]) -> TypedTableRead | None:
    return read_verified(data, folder, found, lambda _: typed_reader.read_folder(data.uri, data.options, folder))


def _look(data: DataLocation) -> TypedLook:
    found: list[Finding] = []
    tables = _tables(data, found)
    seen = [seen_of(folder, one.state) for folder, one in tables.items()]
    origins = _origins(data, tables, found) if tables else {}
    for folder, table in tables.items():
        if not folder.endswith(DEAD_LETTERS):
            _look_at(table, tables.get(folder + DEAD_LETTERS), origins.get(folder), found)
        elif folder.removesuffix(DEAD_LETTERS) not in tables:
            _seqs_in(table, None, found)
    return TypedLook(tuple(seen), tuple(found))


def _origins(data: DataLocation, tables: Mapping[str, TypedTableRead], found: list[Finding]) -> dict[str, _Origin]:
    """Return the messages behind each table that goes on as it is, by its folder."""
    settled = SettledTable(data.table(MESSAGES_FOLDER), storage_options=data.options)
    try:
        marks = settled.refresh().watermarks
        events = stream_events(settled.snapshot, data.table(MESSAGES_FOLDER), data.options)
    except (DamagedData, FileGone):  # found, or deleted meanwhile, in messages
        return {}
    existing, told = existing_in(events), {one.stream: one for one in told_in(events)}
    origins = {}
    for folder, table in tables.items():
        mark = marks.get(table.stream)
        if table.stream not in existing or mark is None or str(mark.stream_id) != table.state.properties[STREAM_ID]:
            continue
        decoder, goes_on = _decoder(table, told[table.stream].typing)
        if goes_on and mark.seq < table.seq and not folder.endswith(DEAD_LETTERS):
            _add(found, folder, "", f"it has taken in sequence {table.seq}, messages is at {mark.seq}")
        elif goes_on and table.seq:
            origins[folder] = _Origin(settled, table.stream, mark.stream_id, table.seq, decoder)
    return origins


def _decoder(table: TypedTableRead, typing: str) -> tuple[PayloadDecoder | None, bool]:
    """Return the decoder of a table by which its rows can be made again, and whether the table goes on as it is."""
    try:
        terms = terms_in(typing)
        if terms is None or ("latest" if terms.latest else "append") != table.kind:
            return None, False
        columns = without_own(table.columns)
        decoder = decoder_of(terms.of_table(columns).schema)
    except BadSchema:  # a library is missing here
        return None, True
    same = isinstance(decoder, (JsonDecoder, InferredDecoder))
    return decoder if same else None, goes_on(columns, decoder.record)


def _look_at(
    table: TypedTableRead, rejects: TypedTableRead | None, origin: _Origin | None, found: list[Finding]
) -> None:
    """Read all files of a table and its dead letters, and compare them with the messages."""
    before = len(found)
    rows = _seqs_in(table, origin, found)
    dead = _NONE if rejects is None else _seqs_in(rejects, origin, found)
    if origin is None or len(found) > before:
        return
    dead = dead[dead <= origin.up_to]  # they are committed first
    if len(beyond := rows[rows > origin.up_to]):
        _add(found, table.folder, "", f"it has sequence {beyond.min()}, but was filled up to {origin.up_to}")
    seqs, times = np.unique(np.concatenate([rows, dead]), return_counts=True)
    if len(twice := seqs[times > 1]):
        _add(found, table.folder, "", f"sequence {twice[0]} is there twice, dead letters included")
    try:
        wrong = (_latest_fault if table.kind == "latest" else _fault)(origin, rows, dead)
    except (DamagedData, FileGone):  # found, or deleted meanwhile, in messages
        return
    if wrong is not None:
        _add(found, table.folder, "", wrong)


def _seqs_in(table: TypedTableRead, origin: _Origin | None, found: list[Finding]) -> Int64s:
    """Return the sequences in a table, each of whose files is read, and compared with the messages."""
    stored = arrow_schema(Record(tuple(column for column in table.columns.columns if column.name != DAY)))
    storage, seqs = open_storage(table.location, table.options), [_NONE]
    for file in table.state.files.values():
        try:
            rows = read_rows(storage, [file], stored)
        except DamagedData as error:
            _add(found, table.folder, file.path, error.reason)
            continue
        except NotStored:
            _add(found, table.folder, file.path, "missing")
            continue
        seqs.append(rows["seq"].to_numpy())
        try:
            wrong = None if origin is None else _wrong(rows, origin, dead_letters=table.kind == "dlq")
        except (DamagedData, FileGone):  # found, or deleted meanwhile, in messages
            continue
        if wrong is not None:
            _add(found, table.folder, file.path, wrong)
    return np.concatenate(seqs)


def _wrong(rows: pa.Table, origin: _Origin, *, dead_letters: bool) -> str | None:
    """Return the first row that is not what its message says, as text. Messages that are gone say nothing."""
    for first in range(0, rows.num_rows, _FETCHED):
        part = rows.slice(first, _FETCHED)
        run = origin.run(part["seq"].to_numpy())
        part = _among(part, run.seqs)
        if len(part) != len(run):
            return "it has a sequence twice"
        micros = np.asarray(run.ts_ns, dtype=np.int64) // 1000
        said = {"subject": run.subjects, "time": pa.array(micros, pa.timestamp("us", tz="UTC")).to_pylist()}
        said |= {"payload": run.data} if dead_letters else {}
        for name, values in said.items():
            if (seq := _different(part, name, values, run.seqs)) is not None:
                return f"column {name} of sequence {seq} is not what the message says"
        if origin.decoder is not None and not dead_letters and (wrong := _wrong_value(part, run, origin.decoder)):
            return wrong
    return None


def _wrong_value(rows: pa.Table, run: MessageRun, decoder: PayloadDecoder) -> str | None:
    """Compare the columns of payloads; one that the table got later is null in earlier rows."""
    ids = [None] * len(run)
    messages = pa.table(
        [
            pa.array(values, kind)
            for values, kind in zip((*run.columns[:3], ids, *run.columns[3:]), _MESSAGE_TYPES, strict=True)
        ],
        names=MESSAGE_COLUMNS,
    )
    try:
        made = typed(messages, decoder).rows
    except Unforeseen:
        return None
    made = _among(made, rows["seq"].to_numpy())
    rows = _among(rows, made["seq"].to_numpy())
    for name in (column.name for column in decoder.record.columns):
        if name in rows.column_names and not rows[name].equals(made[name]):
            columns = (rows[name], made[name], made["seq"])
            for stored, said, seq in zip(*(column.to_pylist() for column in columns), strict=True):
                if stored is not None and repr(stored) != repr(said):
                    return f"column {name} of sequence {seq} is not what the message says"
    return None


def _fault(origin: _Origin, rows: Int64s, dead: Int64s) -> str | None:
    """Say which message is in neither table, though it should be."""
    stored = origin.columns()
    if stored is None:
        return None
    return _lacking(origin, np.setdiff1d(stored["seq"].to_numpy(), np.concatenate([rows, dead])))


def _latest_fault(origin: _Origin, rows: Int64s, dead: Int64s) -> str | None:
    """Say which subject has another row than its last message, or none."""
    stored = origin.columns("subject")
    if stored is None:
        return None
    order = stored.sort_by("seq")
    seqs = order["seq"].to_numpy()
    if len(np.setdiff1d(rows, seqs)):  # messages that were removed: what is the last now has a row after cleanup
        return None
    last = np.fromiter(dict(zip(order["subject"].to_pylist(), seqs, strict=True)).values(), np.int64)
    if len(older := np.setdiff1d(rows, last)):
        return f"sequence {older[0]} is not the last of its subject"
    return _lacking(origin, np.setdiff1d(last, np.concatenate([rows, dead])))


def _lacking(origin: _Origin, seqs: Int64s) -> str | None:
    """Say which of these messages has a value: markers of deletions have no row."""
    for first in range(0, len(seqs), _FETCHED):
        for message in origin.run(seqs[first : first + _FETCHED]):
            if not (message.headers and is_marker(message.headers)):
                return f"sequence {message.seq} of messages is neither here nor a dead letter"
    return None


def _among(rows: pa.Table, seqs: Any) -> pa.Table:
    """Return the rows with these sequences, in their order."""
    return rows.filter(pa.array(np.isin(rows["seq"].to_numpy(), np.asarray(seqs, dtype=np.int64)))).sort_by("seq")


def _different(rows: pa.Table, name: str, values: Any, seqs: Any) -> int | None:
    pairs = zip(rows[name].to_pylist(), values, seqs, strict=True)
    return next((seq for stored, said, seq in pairs if stored != said), None)


def _add(found: list[Finding], folder: str, file: str, what: str) -> None:
    found.append(finding(Severity.REPAIRABLE, folder, file, what))
