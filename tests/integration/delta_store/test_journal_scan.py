"""A journal of many small files: read together, it is what its files say one by one, and damage is still named."""

import os
import resource
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.entries.log_entry import entry_name
from delta_store.entries.settled_log import Snapshot
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import JournalReader
from delta_store.reading.journal_scan import rows_above, rows_of
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settled import SettledTable
from delta_store.reading.tail_cache import TailCache
from delta_store.stores.stores_open import open_stores
from delta_store.streams.catalog import Catalog
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Kind, Row, RowColumns
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import Watermark
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide
from tests.groups import STREAM_ID, columns, event, group, live_rows, message, open_journal, reader, settled_to
from tests.tables import START_NS

COMMITS = 300
"""More than are read together, and more than a checkpoint holds."""


def _written(folder: Path) -> tuple[Journal, Catalog]:
    """A gateway's decisions, each in a commit of its own: messages with ids, limits, purges, consumers, streams."""
    catalog, rows = Catalog(), RowColumns()
    journal = open_journal(folder / "journal")
    for name, limit in (("A", 5), ("B", -1), ("C", -1)):
        config = StreamConfig(name=name, subjects=(f"{name}.>",), max_msgs_per_subject=limit, duplicate_window=200)
        catalog.create(config, now_ns=START_NS, rows=rows)
    journal.commit(rows)
    for step in range(COMMITS):
        now_ns, rows = START_NS + 10 * step, RowColumns()
        if step % 50 == 49:
            catalog.purge("B", keep=3, now_ns=now_ns, rows=rows)
        elif step % 50 == 48:
            catalog.delete("C", now_ns=now_ns, rows=rows)
            catalog.create(StreamConfig(name="C", subjects=("C.>",)), now_ns=now_ns + 1, rows=rows)
        elif step % 10 == 9:
            _consumer(catalog, step, now_ns, rows)
        else:
            rows = _published(catalog, step, now_ns)
        journal.commit(rows)
        if step == COMMITS // 2:
            journal.checkpoint()
    return journal, catalog


def _published(catalog: Catalog, step: int, now_ns: int) -> RowColumns:
    """One to three messages for two of the streams."""
    decided = Group()
    header = b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % (step // 2) if step % 3 else b""
    subjects = [b"A.%d" % (step % 7), b"B.%d" % (step % 11), b"C.x"][: 1 + step % 3]
    decide(catalog, [WireMessage(subject, b"", header, b"payload %d" % step) for subject in subjects], now_ns, decided)
    if not len(decided.rows):
        decide(catalog, [WireMessage(b"B.again", b"", b"", b"")], now_ns, decided)
    return decided.rows


def _consumer(catalog: Catalog, step: int, now_ns: int, rows: RowColumns) -> None:
    """A consumer is created, or has come further."""
    kind = Kind.CONSUMER if step < 50 else Kind.CONSUMER_STATE
    data = b'{"config":{"name":"c%d"},"created_ns":1}' % (step % 5) if step < 50 else b'{"step":%d}' % step
    catalog.streams["A"].record_consumer(kind, name=f"c{step % 20}", data=data, now_ns=now_ns, rows=rows)


def _shown(catalog: Catalog) -> dict[str, Any]:
    """What decisions depend on: messages, bounds, consumers, remembered ids, clocks."""
    shown = {}
    for name, state in catalog.streams.items():
        index = state.index
        state.dedup.forget(state.clock_ns)
        live = index.live.sequences(0, index.last_seq).tolist()
        shown[name] = (
            (state.config, state.position, state.clock_ns, state.last_msg_id, dict(state.consumers)),
            (index.msgs, index.bytes, index.first_seq, index.last_seq, index.first_ts, index.last_ts),
            [(seq, index.subject_of(seq), index.live.ts_of(seq), index.live.size_of(seq)) for seq in live],
            dict(state.dedup.items()),
        )
    return shown


def _rows(parts: Iterable[RowColumns]) -> list[Row]:
    return [row for rows in parts for row in rows.rows()]


def _tail(folder: Path, journal: JournalReader | None = None) -> JournalTail:
    """The journal's files for reading; ``journal`` knows them already."""
    tail = JournalTail(str(folder / "journal"), owner=journal)
    tail.refresh()
    return tail


@pytest.mark.parametrize("rows_at_once", [1, 16_384])
def test_many_small_commits_are_the_state_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    """Index, consumers, remembered ids and rows: as decided, told by the owner or found by an independent reader."""
    monkeypatch.setattr("delta_store.reading.journal_scan._CHUNK_ROWS", rows_at_once)
    monkeypatch.setattr("delta_store.reading.journal_scan._FILES_AT_ONCE", min(rows_at_once, 64))
    _, catalog = _written(tmp_path)
    settled = SettledTable(str(tmp_path / "messages"))
    successor = open_journal(tmp_path / "journal")
    told = open_stores(settled, _tail(tmp_path, successor.reader))
    found = open_stores(settled, _tail(tmp_path))
    assert _shown(told.catalog) == _shown(found.catalog) == _shown(catalog)
    assert told.catalog.ended == found.catalog.ended == catalog.ended
    assert told.journal.files == found.journal.files
    assert told.journal.version == found.journal.version == successor.reader.version
    tail = _tail(tmp_path)
    singly = [row for _, rows in live_rows(successor.reader) for row in rows.rows()]
    for stream in catalog.streams:
        mine = [row for row in _rows(rows_above(tail, tail.snapshot, {})) if row.stream == stream]
        assert mine == sorted((row for row in singly if row.stream == stream), key=lambda row: row.position)


def test_what_is_committed_later_is_followed(tmp_path: Path) -> None:
    """By the owner's own word and by its log: new files come, truncated ones go."""
    journal = open_journal(tmp_path / "journal")
    for seq in range(1, 9):
        journal.commit(group(seq))
    tail = _tail(tmp_path, journal.reader)
    journal.commit(group(9, 2))
    journal.truncate(settled_to(5))
    assert [row.seq for row in _rows(rows_above(tail, tail.refresh(), {}))] == [6, 7, 8, 9, 10]
    assert tail.refresh().version == journal.reader.version
    assert tail.refresh().files == _tail(tmp_path).snapshot.files


def test_large_payloads_come_in_parts(tmp_path: Path) -> None:
    """More than is held at a time comes part by part, each stream's rows in order."""
    journal = open_journal(tmp_path / "journal")
    written = []
    for seq in range(1, 13):
        payload = bytes([seq]) * 6_000_000
        rows = [message(seq, data=payload), message(seq, stream="OTHER", data=payload), event(seq, seq)]
        journal.commit(columns(rows))
        written += rows
    tail = _tail(tmp_path, journal.reader)
    parts = list(rows_above(tail, tail.snapshot, {}))
    assert all(sum(map(len, rows.data)) < 50_000_000 for rows in parts)
    for stream in ("ORDERS", "OTHER"):
        mine = sorted((row for row in written if row.stream == stream), key=lambda row: row.position)
        assert [row for row in _rows(parts) if row.stream == stream] == mine


@pytest.mark.slow
def test_more_than_arrow_holds_in_a_column_is_opened(tmp_path: Path) -> None:
    """A store with 2.2 GiB to settle opens, within memory that does not grow with that, and has its last messages."""
    rows = RowColumns()
    start = StreamConfig(name="S", subjects=("s.>",))
    catalog = Catalog()
    catalog.create(start, now_ns=START_NS, rows=rows)
    journal = open_journal(tmp_path / "journal")
    journal.commit(rows)
    payload = os.urandom(8_000_000)
    for step in range(1, 41):
        group_ = Group()
        decide(catalog, [WireMessage(b"s.x", b"", b"", payload)] * 7, START_NS + step, group_)
        journal.commit(group_.rows)
    del group_
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    newest = TailCache(64_000_000)
    opened = open_stores(SettledTable(str(tmp_path / "messages")), _tail(tmp_path, journal.reader), newest=newest)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000
    state = opened.catalog.streams["S"]
    assert (state.index.msgs, state.index.bytes) == (280, catalog.streams["S"].index.bytes)
    last = newest.get("S", state.stream_id, 280)
    assert last is not None
    assert last.data == payload


@pytest.mark.parametrize("settled_seq", [0, 1, 100, 101, 299, 300])
def test_settled_rows_are_left_out(tmp_path: Path, settled_seq: int) -> None:
    """By position and stream, also where a file holds both settled and unsettled rows, of several streams."""
    journal = open_journal(tmp_path / "journal")
    everything = []
    for seq in range(1, 300, 2):
        rows = [message(seq), event(seq, seq), message(seq, stream="OTHER"), message(seq + 1)]
        journal.commit(columns(rows))
        everything += rows
    marks = {"ORDERS": Watermark(STREAM_ID, settled_seq, 0, 1), "GONE": Watermark(1, 1, 1, 1)}
    tail = _tail(tmp_path, journal.reader)
    left = [row for row in everything if row.stream == "OTHER" or row.position > marks["ORDERS"].position]
    expected = sorted(left, key=lambda row: (row.stream, row.position))
    assert _rows(rows_above(tail, tail.snapshot, marks)) == expected


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with 200 commits of one message each; not to be changed."""
    folder = tmp_path_factory.mktemp("filled")
    journal = open_journal(folder / "journal")
    for seq in range(1, 201):
        journal.commit(group(seq))
    return folder


@pytest.fixture
def copied(filled: Path, tmp_path: Path) -> Path:
    """The same, for a test to damage."""
    shutil.copytree(filled / "journal", tmp_path / "journal")
    return tmp_path


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"payload") + 3] ^= 1
    path.write_bytes(raw)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _other_crc(path: Path) -> None:
    """A whole Parquet file, but for a row that says something else than its checksum."""
    table = pq.read_table(path)
    at = table.schema.get_field_index("crc")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array([1] * len(table), pa.int64())), path)


def _lacking(path: Path) -> None:
    """A whole Parquet file with a row that lacks a value."""
    table = pq.read_table(path)
    at = table.schema.get_field_index("seq")
    pq.write_table(table.set_column(at, "seq", pa.nulls(len(table), pa.int64())), path)


def _other_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["data"]), path)


@pytest.mark.parametrize("settled_seq", [0, 200])
@pytest.mark.parametrize("harm", [_flip, _halve, _other_crc, _lacking, _other_columns])
@pytest.mark.parametrize("place", [0, 100, 199])
def test_one_damaged_file_of_many_is_named(
    copied: Path, place: int, harm: Callable[[Path], None], settled_seq: int
) -> None:
    """Wherever it is and whatever is wrong with it, also when its rows are settled."""
    tail = _tail(copied, reader(copied / "journal"))
    harmed = sorted((copied / "journal").glob("*.parquet"))[place]
    harm(harmed)
    with pytest.raises(DamagedData) as caught:
        list(rows_above(tail, tail.snapshot, {"ORDERS": Watermark(STREAM_ID, settled_seq, 0, 1)}))
    assert caught.value.file == str(harmed)
    with pytest.raises(DamagedData) as caught:
        rows_of(tail, tail.snapshot.files[harmed.name])
    assert caught.value.file == str(harmed)
    others = {path: file for path, file in tail.snapshot.files.items() if path != harmed.name}
    assert len(_rows(rows_above(tail, Snapshot(1, others, {}), {}))) == 199


def test_one_missing_file_of_many_is_named(copied: Path) -> None:
    """To a reader it may be a truncation; to the next owner it is damage."""
    tail = _tail(copied, reader(copied / "journal"))
    gone = sorted((copied / "journal").glob("*.parquet"))[150]
    gone.unlink()
    with pytest.raises(FileGone) as caught:
        list(rows_above(tail, tail.snapshot, {}))
    assert caught.value.file == str(gone)
    with pytest.raises(DamagedData) as damaged:
        open_journal(copied / "journal")
    assert damaged.value.file == str(gone)


def test_files_of_another_layout_are_read_as_well(copied: Path) -> None:
    """Large strings, dictionaries and nullable columns among files that have none, in the same rows."""
    journal = reader(copied / "journal")
    expected = _rows(rows for _, rows in live_rows(journal))
    tail = _tail(copied, journal)
    for path in sorted((copied / "journal").glob("*.parquet"))[::7]:
        table = pq.read_table(path)
        kinds = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        fields = [pa.field(field.name, kinds.get(field.type, field.type)) for field in table.schema]
        table = table.cast(pa.schema(fields))
        pq.write_table(table.set_column(0, "stream", table["stream"].dictionary_encode()), path)
    assert _rows(rows_above(tail, tail.snapshot, {})) == expected


def test_an_empty_log_entry_behind_the_checkpoint_is_named(tmp_path: Path) -> None:
    """The owner does not need it any more, the settle job does."""
    journal = open_journal(tmp_path / "journal")
    for seq in range(1, 9):
        journal.commit(group(seq))
    journal.checkpoint()
    emptied = tmp_path / "journal" / LOG_FOLDER / entry_name(4)
    os.truncate(emptied, 0)
    for opening in (open_journal, reader):
        with pytest.raises(DamagedData, match="it is empty") as caught:
            opening(tmp_path / "journal")
        assert caught.value.file == str(emptied)
