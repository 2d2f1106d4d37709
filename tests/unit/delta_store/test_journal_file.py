"""The journal's Parquet files: what goes in comes out, and nothing else does."""

import json
import random
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from delta_store.entries import journal_file
from delta_store.entries.journal_file import DamagedFile, EncodedFile, Span
from delta_store.values.records import Row
from delta_store.values.schemas import JOURNAL_SCHEMA
from tests.groups import STREAM_ID, any_rows, columns, event, group, message


def _decoded(file: EncodedFile) -> list[Row]:
    return list(journal_file.decode(file.body, size=len(file.body), checksum=file.checksum).rows())


@settings(deadline=None, max_examples=50)
@given(any_rows())
def test_rows_survive_the_round_trip(rows: list[Row]) -> None:
    """Any rows that the schema allows are read back equal, their checksums too."""
    file = journal_file.encode(columns(rows))
    assert _decoded(file) == rows
    assert file.rows == len(rows)


@pytest.mark.parametrize("count", [1, 63, 64, 3_000])
def test_groups_of_any_size_survive_the_round_trip(count: int) -> None:
    """With dictionaries and without; one stream, where most columns repeat one value."""
    rows = group(1, count)
    assert _decoded(journal_file.encode(rows)) == list(rows.rows())


def test_large_payloads_survive_the_round_trip() -> None:
    """A file that is written in parts is the same file."""
    rows = group(1, 5)
    rows.data = [payload + bytes(200_000) for payload in rows.data]
    file = journal_file.encode(rows)
    assert len(file.parts) > 5
    assert file.size == len(file.body)
    assert _decoded(file) == list(rows.rows())


@settings(deadline=None, max_examples=50)
@given(any_rows())
def test_statistics_and_spans_bound_the_rows(rows: list[Row]) -> None:
    """Bounds are exact, so that skipping by them loses nothing, and each stream's span is its first and last row."""
    file = journal_file.encode(columns(rows))
    stats = json.loads(file.stats)
    for name in stats["minValues"]:
        values = [getattr(row, name) for row in rows]
        assert (stats["minValues"][name], stats["maxValues"][name]) == (min(values), max(values))
    for name, nulls in stats["nullCount"].items():
        assert nulls == sum(getattr(row, name) is None for row in rows)
    assert stats["numRecords"] == len(rows)
    for span in file.spans:
        own = [row for row in rows if row.stream_id == span.stream_id]
        first, last = own[0], own[-1]
        assert span == Span(first.stream, first.stream_id, first.seq, first.event_no, last.seq, last.event_no)
    assert {span.stream_id for span in file.spans} == {row.stream_id for row in rows}


def test_the_file_has_the_journals_schema() -> None:
    """Columns, types and which of them may be null are as the schema says, in plain uncompressed Parquet."""
    body = journal_file.encode(group(1, 500)).body
    file = pq.ParquetFile(pa.BufferReader(body))
    assert file.schema_arrow.equals(JOURNAL_SCHEMA)
    chunks = [file.metadata.row_group(0).column(at) for at in range(len(JOURNAL_SCHEMA))]
    assert {chunk.compression for chunk in chunks} == {"UNCOMPRESSED"}


def test_an_older_incarnation_has_its_own_span() -> None:
    """A stream deleted and made again inside one group counts as two streams."""
    rows = [message(7), event(7, 1), event(0, 1, stream_id=STREAM_ID + 5), message(1, stream_id=STREAM_ID + 5)]
    assert journal_file.encode(columns(rows)).spans == (
        Span("ORDERS", STREAM_ID, 7, 0, 7, 1),
        Span("ORDERS", STREAM_ID + 5, 0, 1, 1, 0),
    )


def test_no_flipped_bit_is_read_as_data() -> None:
    """Every byte of a file is guarded: one flipped bit anywhere is reported."""
    file = journal_file.encode(group(1, 40))
    original, dice = bytes(file.body), random.Random(1)
    for at in range(len(original)):
        altered = bytearray(original)
        altered[at] ^= 1 << dice.randrange(8)
        with pytest.raises(DamagedFile):
            journal_file.decode(bytes(altered), size=len(original), checksum=file.checksum)


def test_page_checksums_guard_the_rows_for_other_readers() -> None:
    """A reader that only knows Parquet finds a flipped payload bit too."""
    body = bytearray(journal_file.encode(group(1, 40)).body)
    body[body.index(b"payload 17")] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(body)), page_checksum_verification=True).read()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_short_file_is_reported(share: float) -> None:
    """Empty, nearly empty, half, or all but the last byte."""
    file = journal_file.encode(group(1, 5))
    body = bytes(file.body)
    with pytest.raises(DamagedFile, match="bytes"):
        journal_file.decode(body[: int(len(body) * share)], size=len(body), checksum=file.checksum)


def test_a_row_that_does_not_match_its_checksum_is_reported() -> None:
    """A file whole in itself, but with a row altered before it was written."""
    table = pq.ParquetFile(pa.BufferReader(journal_file.encode(group(1, 3)).body)).read()
    at = table.column_names.index("data")
    altered = table.set_column(at, JOURNAL_SCHEMA.field("data"), pa.array([b"a", b"b", b"c"], pa.binary()))
    sink = pa.BufferOutputStream()
    pq.write_table(altered, sink, store_schema=False)
    body = sink.getvalue()
    with pytest.raises(DamagedFile, match="row"):
        journal_file.decode(body, size=len(body), checksum=crc32(body))
