"""Groups of rows as the gateway commits them, and helpers of the tests of the journal."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import strategies as st

from conf.clock import Clock, SystemClock
from delta_store.entries import journal_file
from delta_store.entries.log_entry import JournalFile
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import JournalReader
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Storage
from delta_store.values.records import Kind, Position, Row, RowColumns, checksum

STREAM_ID = 1_750_000_000_000_000_000
SHARD = "0"


class SteppedClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ns(self) -> int:
        """Return the wall time in ns, in step with the monotonic one."""
        return STREAM_ID + int(self.seconds * 1e9)

    def monotonic(self) -> float:
        """Return the seconds set by the test."""
        return self.seconds


def message(seq: int, *, stream: str = "ORDERS", stream_id: int = STREAM_ID, data: bytes | None = None) -> Row:
    """Return a message row, whose content follows from its sequence."""
    subject, headers = f"{stream.lower()}.{seq % 7}", b"NATS/1.0\r\nN: %d\r\n\r\n" % seq if seq % 3 else None
    body = b"payload %d" % seq if data is None else data
    crc = checksum(subject, headers, body)
    msg_id = f"id-{seq}" if seq % 2 else None
    return Row(stream, stream_id, seq, 0, Kind.MESSAGE, subject, stream_id + seq, msg_id, 1, 0, headers, body, crc)


def event(seq: int, event_no: int, *, stream: str = "ORDERS", stream_id: int = STREAM_ID) -> Row:
    """Return an event row after message ``seq``."""
    data = b'{"config":{}}'
    crc = checksum("", None, data)
    return Row(stream, stream_id, seq, event_no, Kind.STREAM, "", stream_id + seq, None, 1, 0, None, data, crc)


def columns(rows: Iterable[Row]) -> RowColumns:
    """Return rows as columns."""
    gathered = RowColumns()
    for row in rows:
        gathered.append(row)
    return gathered


def group(first: int, count: int = 1, *, stream: str = "ORDERS", stream_id: int = STREAM_ID) -> RowColumns:
    """Return ``count`` messages of one stream from sequence ``first`` on."""
    return columns(message(seq, stream=stream, stream_id=stream_id) for seq in range(first, first + count))


def open_journal(folder: Path, clock: SteppedClock | SystemClock | None = None) -> Journal:
    """Open and claim the journal of a folder."""
    return open_journal_on(LocalStorage(folder), clock or SystemClock())


def open_journal_on(storage: Storage, clock: Clock) -> Journal:
    """Open and claim the journal of a storage."""
    journal = Journal.open(storage, shard=SHARD, clock=clock)
    journal.claim()
    return journal


def reader(folder: Path) -> JournalReader:
    """Open the journal of a folder for reading."""
    return JournalReader.read_only(LocalStorage(folder), shard=SHARD)


def rows_in(journal: JournalReader, file: JournalFile) -> RowColumns:
    """Return all rows of a file; its size and checksum are compared with its log entry."""
    return journal_file.decode(journal.storage.read(file.name), size=file.size, checksum=file.checksum)


def live_rows(journal: JournalReader) -> Iterator[tuple[int, RowColumns]]:
    """Yield all rows of the table, by commit, with the version."""
    for file in journal.live_files():
        yield file.version, rows_in(journal, file)


def tail(journal: JournalReader, version: int) -> Iterator[tuple[int, RowColumns]]:
    """Yield the groups committed at a version and later, with their versions."""
    for entry in journal.log.since(version):
        for file in entry.added:
            yield entry.version, rows_in(journal, file)


def settled_to(seq: int, *, stream: str = "ORDERS", stream_id: int = STREAM_ID) -> dict[str, Position]:
    """Return the settled position of one stream."""
    return {stream: Position(stream_id, seq, 0)}


def sequences(groups: Iterable[tuple[int, RowColumns]]) -> list[int]:
    """Return the sequences of the rows of :func:`tail` or :func:`live_rows`, in order."""
    return [seq for _, rows in groups for seq in rows.seq]


def through_delta_rs(folder: Path) -> list[int]:
    """Return the table's sequences as delta-rs reads them, sorted."""
    table = pa.table(DeltaTable(str(folder)).to_pyarrow_dataset().to_table(columns=["seq"]))
    return sorted(table["seq"].to_pylist())


_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_longs = st.integers(0, 2**62)


@st.composite
def any_rows(draw: st.DrawFn) -> list[Row]:
    """Draw rows of a few streams, each stream's in order, with any content that the schema allows."""
    count = draw(st.integers(1, 12))
    streams = draw(st.lists(st.tuples(_texts, _longs), min_size=1, max_size=3, unique_by=lambda item: item[1]))
    stand = {stream_id: (draw(_longs) // 2, 0) for _, stream_id in streams}
    rows = []
    for _ in range(count):
        stream, stream_id = draw(st.sampled_from(streams))
        seq, event_no = stand[stream_id]
        kind = draw(st.sampled_from(Kind))
        seq, event_no = (seq + 1, event_no) if kind is Kind.MESSAGE else (seq, event_no + 1)
        stand[stream_id] = seq, event_no
        subject, headers, data = draw(_texts), draw(st.none() | st.binary(min_size=1, max_size=30)), draw(st.binary())
        rows.append(
            Row(
                stream, stream_id, seq, event_no, kind, subject, draw(_longs), draw(st.none() | _texts), draw(_longs),
                draw(_longs), headers, data, checksum(subject, headers, data),
            )
        )  # fmt: skip
    return rows
