"""The catalog rebuilt from the tables: ``messages`` up to its watermark, then the journal's rows above it.

Nothing else is durable. Liveness is not decided here either: recorded effects are applied to whole columns, so that a
stream of a million messages is back within seconds, and payloads are only read where decisions need them (counters).
"""

from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries.checkpoint_table import checkpoint_version
from delta_store.entries.log_entry import version_of
from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.entries.tables_agree import fault_between, fault_of_lost_journal, held_by
from delta_store.index.stream_index import StreamIndex
from delta_store.journal.journal import Journal
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.message_columns import COLUMNS, add_live, message_columns
from delta_store.reading.settled import SettledTable
from delta_store.reading.state_at import END, EventRow, cut_at
from delta_store.reading.tail_cache import TailCache
from delta_store.storage.storage import Storage
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.streams.catalog import Catalog
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.replay import replay, replay_row, restore_watermarks
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Kind, Row
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import Watermark

_IDS: Final = ("stream_id", "kind", "seq", "ts_ns", "msg_id")
_EVENT: Final = ("stream_id", "seq", "event_no", "kind", "subject", "ts_ns", "first_seq", "data")
_CONTENT: Final = ("stream_id", "kind", "seq", "ts_ns", "headers", "data")
_TRIES: Final = 3


class Opened(NamedTuple):
    """A rebuilt catalog and the versions that it is at."""

    catalog: Catalog
    journal: Snapshot
    settled: Snapshot


def open_stores(
    settled: SettledTable,
    journal: JournalTail,
    *,
    domain: str = "",
    newest: TailCache | None = None,
    progress: OpeningProgress | None = None,
) -> Opened:
    """Rebuild the catalog from both tables, journal pinned first. Blocks.

    ``newest`` is filled with unsettled payloads, as many as fit; ``progress`` is updated meanwhile. Raises
    ``DamagedData``, ``FileGone`` when truncation overtakes the reader again and again, and ``OpeningAbandoned``.
    """
    progress = progress or OpeningProgress()
    for _ in range(_TRIES - 1):
        try:
            return _open(settled, journal, domain, newest, progress)
        except FileGone:
            continue
    return _open(settled, journal, domain, newest, progress)


def _open(
    settled: SettledTable, journal: JournalTail, domain: str, newest: TailCache | None, progress: OpeningProgress
) -> Opened:
    pinned, base = journal.refresh(), settled.refresh()
    if fault := fault_of_lost_journal(pinned.version, base.watermarks):
        raise DamagedData(journal.location, fault)
    progress.begin(base.rows + pinned.rows)
    catalog = Catalog(domain=domain)
    restore_settled(catalog, settled, base, progress)
    if newest is not None:
        newest.clear()
    for rows in rows_above(journal, pinned, base.watermarks, progress.passed):
        replay(catalog, rows)
        if newest is not None:
            newest.add(rows)
    return Opened(catalog, pinned, base)


def refuse_lost_journal(storage: Storage, settled: SettledTable) -> None:
    """Raise ``DamagedData`` when settled rows have no journal: a new one would reuse their sequences."""
    has_log = any(version_of(name) is not None or checkpoint_version(name) for name in storage.sizes(LOG_FOLDER))
    if fault := fault_of_lost_journal(0 if has_log else -1, settled.refresh().watermarks):
        raise DamagedData(storage.uri, fault)


def refuse_apart(journal: Journal, opened: Opened) -> None:
    """Raise ``DamagedData`` when a claimed journal does not continue where ``messages`` ends."""
    streams = opened.catalog.streams
    skipping = {name for name, state in streams.items() if state.config.mirror is not None or state.restored}
    if fault := fault_between(opened.settled.watermarks, held_by(journal.reader.live_files()), skipping=skipping):
        raise DamagedData(f"{journal.reader.storage.uri}/{LOG_FOLDER}", fault)


def restore_settled(catalog: Catalog, settled: SettledTable, base: Snapshot, progress: OpeningProgress) -> None:
    """Restore the state at the watermarks into an empty catalog."""
    for name, mark in base.watermarks.items():
        files = base.of_stream(name)
        events = _events(settled, name, files)
        for event in events:
            if event.kind != Kind.REMOVE:
                replay_row(catalog, event)
        state = catalog.streams.get(name)
        if state is not None and state.stream_id == mark.stream_id:
            mine = [event for event in events if event.stream_id == mark.stream_id]
            restore_stream(state, mark, mine, settled, [file for file in files if file.has_messages])
        progress.passed(sum(file.rows for file in files))
    restore_watermarks(catalog, base.watermarks)


def _events(settled: SettledTable, name: str, files: list[DataFile]) -> list[Row]:
    """Return all event rows of a name, over all its incarnations, in order; of consumers' states only the newest."""
    events = settled.columns([file for file in files if file.events_only], _EVENT)
    consumers = settled.columns([file for file in files if file.consumers_only], _EVENT)
    tables = [events, None if consumers is None else _newest_states(consumers)]
    tables = [table for table in tables if table is not None]
    if not tables:
        return []
    table = pa.concat_tables(tables).unify_dictionaries()
    columns = [table[column].to_pylist() for column in _EVENT]
    rows = [
        Row(name, stream_id, seq, event_no, kind, subject, ts_ns, None, first_seq, 0, None, data, 0)
        for stream_id, seq, event_no, kind, subject, ts_ns, first_seq, data in zip(*columns, strict=True)
    ]
    return sorted(rows, key=lambda row: row.position)


def _newest_states(table: Any) -> Any:
    """Return the rows of consumers, without the states that later ones of the same consumer supersede."""
    newest: dict[tuple[int, str], tuple[int, int, int]] = {}
    others: list[int] = []
    columns = (table[name].to_pylist() for name in ("stream_id", "subject", "kind", "seq", "event_no"))
    for place, (stream_id, name, kind, seq, event_no) in enumerate(zip(*columns, strict=True)):
        if kind in (Kind.CONSUMER_STATE, Kind.SOURCE_STATE):
            newest[stream_id, name] = max(newest.get((stream_id, name), (0, 0, 0)), (seq, event_no, place))
        else:
            others.append(place)
    return table.take(pa.array(sorted([*others, *(place for _, _, place in newest.values())]), pa.int64()))


def restore_stream(  # all that a stream is restored from
    state: StreamState,
    mark: Watermark,
    events: list[Row],
    settled: SettledTable,
    files: list[DataFile],
    known: StreamIndex | None = None,
) -> None:
    """Restore the messages of a stream at its watermark from their files; ``events`` are those of its incarnation.

    ``known`` is the index of the same messages, all of them live, where they need not be read.
    """
    if known is not None:
        state.index, newest = known, known.last_ts
    else:
        rows = message_columns(settled.columns(files, COLUMNS), mark.stream_id)
        removals = [
            EventRow(event.seq, event.event_no, event.kind, event.first_seq, event.data, event.ts_ns)
            for event in events
        ]
        add_live(state, rows, cut_at(END, first_seq=mark.first_seq, events=removals))
        newest = int(rows.ts_ns.max(initial=0))
    _restore_content(state, mark, settled, files)
    ended = [read_removal(event.data)[1] for event in events if event.kind == Kind.REMOVE]
    last_ts = max([*ended, newest])
    state.index.restore_bounds(first_seq=mark.first_seq, last_seq=mark.seq, last_ts=last_ts)
    state.clock_ns = max([state.clock_ns, last_ts, *(event.ts_ns for event in events)])
    _restore_ids(state, mark, settled, files, last_ts)


def _restore_content(state: StreamState, mark: Watermark, settled: SettledTable, files: list[DataFile]) -> None:
    """Restore what the content of live messages holds, and when schedules fired, also of messages now dead."""
    columns = _CONTENT if state.counters is not None else _CONTENT[:-1]
    table = settled.columns(files, columns) if state.reads_content else None
    if table is None:
        return
    chosen = pc.and_(pc.equal(table["stream_id"], mark.stream_id), pc.equal(table["kind"], Kind.MESSAGE.value))
    table = table.filter(pc.and_(chosen, pc.is_valid(table["headers"])))
    seqs, times, headers, *data = (table[name].to_pylist() for name in columns[2:])
    payloads = data[0] if data else [b""] * len(seqs)
    rows = zip(seqs, times, headers, payloads, strict=True)
    for seq, ts_ns, header, payload in sorted(rows, key=itemgetter(0)):
        if state.index.live.sid_of(seq) >= 0:
            state.note_content(seq, header, payload, ts_ns=ts_ns)
        elif state.schedules is not None:
            state.schedules.note(state.index, seq, header, ts_ns=ts_ns)


def _restore_ids(
    state: StreamState, mark: Watermark, settled: SettledTable, files: list[DataFile], last_ts: int
) -> None:
    """Restore the message ids that the window may still hold, and that of the last message."""
    since = last_ts - state.config.duplicate_window
    recent = [file for file in files if file.ts_ns[1] > since or file.seq[1] >= mark.seq]
    table = settled.columns(recent, _IDS)
    if table is None:
        return
    chosen = pc.and_(pc.equal(table["stream_id"], mark.stream_id), pc.equal(table["kind"], Kind.MESSAGE.value))
    in_window = pc.and_(pc.greater(table["ts_ns"], since), pc.is_valid(table["msg_id"]))
    chosen = pc.and_(chosen, pc.or_(in_window, pc.equal(table["seq"], mark.seq)))
    table = table.filter(chosen).sort_by([("seq", "ascending")])
    ids, seqs, times = (table[name].to_pylist() for name in ("msg_id", "seq", "ts_ns"))
    state.dedup.restore(zip(ids, seqs, times, strict=True))
    if seqs and seqs[-1] == mark.seq:
        state.last_msg_id = ids[-1] or ""
