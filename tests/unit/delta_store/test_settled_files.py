"""Reading messages out of Parquet files: row groups, the cache's bound, damage."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pa_fs

from delta_store.reading.settled_files import MessageFiles
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Row
from delta_store.values.schemas import JOURNAL_SCHEMA
from tests.tables import History


def write(path: Path, rows: list[Row], *, group_rows: int = 10, checksums: bool = True) -> str:
    """A file of rows in small row groups."""
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, one.type) for column, one in zip(columns, JOURNAL_SCHEMA, strict=True)]
    table = pa.table(arrays, schema=JOURNAL_SCHEMA)
    pq.write_table(table, path, row_group_size=group_rows, write_page_checksum=checksums, compression="none")
    return str(path)


def reader(cache_bytes: int = 1 << 20) -> MessageFiles:
    """A reader of local files."""
    return MessageFiles(pa_fs.LocalFileSystem(), cache_bytes=cache_bytes)


def ascending(*seqs: int) -> np.ndarray:
    """Wanted sequences."""
    return np.array(seqs, np.int64)


@pytest.mark.parametrize("cache_bytes", [0, 2000, 1 << 20])
def test_wanted_messages_come_back_from_any_row_group(tmp_path: Path, cache_bytes: int) -> None:
    """Messages of one stream are found among others, events and other incarnations, with any size of cache."""
    history, other, older = History(), History(stream="T"), History(stream_id=1)
    rows = [history.create(), *(one.publish(f"s.{n % 4}") for n in range(30) for one in (history, other, older))]
    rows.sort(key=lambda row: row.subject)
    path, files = write(tmp_path / "a.parquet", rows), reader(cache_bytes)
    for _ in range(2):
        found = [one for run in files.fetch(path, "S", history.stream_id, ascending(1, 7, 30, 31)) for one in run]
        assert sorted(message.seq for message in found) == [1, 7, 30]
        assert {message.data for message in found} == {b"S/1", b"S/7", b"S/30"}
        assert files._rows.size <= cache_bytes
    assert files.fetch(path, "NONE", 1, ascending(1)) == []


def test_the_cache_spares_the_file(tmp_path: Path) -> None:
    """A row group in memory is served although the file is gone; a file that was never read is reported gone."""
    history = History()
    path, files = write(tmp_path / "a.parquet", [history.publish("s") for _ in range(20)]), reader()
    files.fetch(path, "S", history.stream_id, ascending(3))
    Path(path).unlink()
    assert len(files.fetch(path, "S", history.stream_id, ascending(4))) == 1
    with pytest.raises(FileGone, match=r"a\.parquet"):
        files.fetch(path, "S", history.stream_id, ascending(15))
    with pytest.raises(FileGone):
        files.columns(str(tmp_path / "b.parquet"), ["seq"])


@pytest.mark.parametrize("checksums", [False, True])
def test_no_flipped_bit_reaches_a_reader(tmp_path: Path, checksums: bool) -> None:
    """Wherever a payload, header or subject is altered, the read fails and names the file."""
    history = History()
    rows = [history.publish("subject", b"payload-" * 8, headers=b"NATS/1.0\r\nA: b\r\n\r\n") for _ in range(3)]
    path = Path(write(tmp_path / "a.parquet", rows, checksums=checksums))
    whole = path.read_bytes()
    for text in (b"payload-", b"subject", b"NATS/1.0"):
        damaged = bytearray(whole)
        damaged[whole.index(text) + 2] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(DamagedData, match=r"a\.parquet"):
            reader().fetch(str(path), "S", history.stream_id, ascending(1, 2, 3))
    path.write_bytes(whole)
    assert sum(map(len, reader().fetch(str(path), "S", history.stream_id, ascending(1, 2, 3)))) == 3


@pytest.mark.parametrize("left", [0, 3, 500])
def test_a_cut_off_file_is_damage(tmp_path: Path, left: int) -> None:
    """Short files are damage, not empty files."""
    history = History()
    path = Path(write(tmp_path / "a.parquet", [history.publish("s") for _ in range(9)]))
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DamagedData, match=r"a\.parquet"):
        reader().fetch(str(path), "S", history.stream_id, ascending(1))
    with pytest.raises(DamagedData, match=r"a\.parquet"):
        reader().columns(str(path), ["seq"])
