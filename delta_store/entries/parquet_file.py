"""A writer of Parquet files of one row group from columns of Python values. Pure: values in, bytes out, in parts.

A commit is small and waits for its file, and bringing its values into Arrow arrays for a general writer takes several
times as long as writing the bytes. So this writes the little that the journal needs: flat columns of integers, strings
and binaries, in version 1 data pages with checksums. A column is written as

    all values equal      a dictionary of one value, and one run of its index
    few distinct ones     a dictionary, and one byte a row (strings of many rows)
    any others            PLAIN; megabytes of binaries that shrink by Snappy, in several pages

Columns that are the same in every commit (stream, kind, ...) come from a cache, and large values become parts of the
file uncopied. Reading is left to Arrow, Spark and delta-rs, which the tests compare with. Source: Apache Parquet
format, ``parquet.thrift`` and Encodings.md; Thrift's compact protocol.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

MAGIC: Final = b"PAR1"
_LENGTH: Final = Struct("<I")
_DICTIONARY_ROWS_MIN: Final = 64
"""Below it a dictionary of several values costs more than it saves."""
_DICTIONARY_VALUES_MAX: Final = 256
"""Values that one byte can index."""
_LARGE_BYTES: Final = 4096
"""Mean size of a column's values from which on they are not copied."""
_SHRUNK_BYTES_MIN: Final = 1024 * 1024
"""Size of a column from which on it is compressed, where that pays: a disk takes longer than Snappy."""
_SHRUNK_PAGE_BYTES: Final = 512 * 1024
_SHRUNK_SHARE: Final = 0.5
"""Share of a column that compression takes away at most: readers bound their memory by the sizes of files."""
_PAYS_SHARE: Final = 0.1
"""Share that it must take away of the first page."""
_SNAPPY: Final = pa.Codec("snappy")
_LITERAL: Final = bytes((63 << 2,))
"""Snappy's tag of bytes as they are, with four bytes of their length less one behind it."""

_INT64, _BYTE_ARRAY = 2, 6
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_CODEC_NONE, _CODEC_SNAPPY = 0, 1
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_STOP: Final = b"\0"


class Field(NamedTuple):
    """A column of the file."""

    name: str
    kind: str
    """``long`` (64 bits, signed), ``string`` or ``binary``."""
    nullable: bool


class _Pages(NamedTuple):
    """A column's pages with their headers."""

    dictionary: bytes
    """Empty without a dictionary."""
    data: tuple[bytes, ...]
    """In parts."""
    data_bytes: int
    codec: int = _CODEC_NONE
    plain_bytes: int = 0
    """What ``data_bytes`` would be without a codec; 0 where there is none."""

    @property
    def size(self) -> int:
        """Bytes of all pages."""
        return len(self.dictionary) + self.data_bytes

    @property
    def plain_size(self) -> int:
        """Bytes of all pages before they were compressed."""
        return len(self.dictionary) + (self.plain_bytes or self.data_bytes)


class _PagesPlace(NamedTuple):
    """Where a column's pages are in the file, in bytes."""

    offset: int
    codec: int
    dictionary_bytes: int
    size: int
    plain_size: int


class Layout:
    """The columns of one kind of file."""

    def __init__(self, fields: Sequence[Field], *, created_by: str) -> None:
        self.fields = tuple(fields)
        root = _binary(4, b"schema") + _i32(1, len(fields)) + _STOP
        elements = b"".join(map(_schema_element, fields))
        self._version_and_schema = _i32(1, 1) + _list(1, _STRUCT, len(fields) + 1) + root + elements
        self._created_by = _binary(2, created_by.encode()) + _STOP

    def encode(self, columns: Sequence[Sequence[Any]]) -> list[bytes]:
        """Encode values by column (equally many, at least one) as a file, in parts to be joined.

        Values are ``int``, ``str`` or ``bytes`` as the fields say; None only where the field is nullable.
        """
        rows = len(columns[0])
        parts = [MAGIC]
        chunks = []
        offset, plain_bytes = len(MAGIC), 0
        for field, values in zip(self.fields, columns, strict=True):
            pages = _pages(field, values)
            parts.append(pages.dictionary)
            parts += pages.data
            place = _PagesPlace(offset, pages.codec, len(pages.dictionary), pages.size, pages.plain_size)
            chunks.append(_column_chunk(field, rows, place))
            offset += pages.size
            plain_bytes += pages.plain_size
        row_group = (*chunks, _i64(1, plain_bytes), _i64(1, rows), _STOP)
        footer = b"".join(
            (
                self._version_and_schema,
                _i64(1, rows),
                _list(1, _STRUCT, 1),
                _list(1, _STRUCT, len(chunks)),
                *row_group,
                self._created_by,
            )
        )
        parts += (footer, _LENGTH.pack(len(footer)), MAGIC)
        return parts


def _pages(field: Field, values: Sequence[Any]) -> _Pages:
    """Encode values in the cheapest way that every reader supports."""
    rows, first = len(values), values[0]
    if field.kind != "binary" or first is None:
        if rows == 1 or values.count(first) == rows:
            return _constant(field, first, rows)
        if field.kind == "string" and rows >= _DICTIONARY_ROWS_MIN and not field.nullable:
            different = list(dict.fromkeys(values))
            if len(different) <= _DICTIONARY_VALUES_MAX:
                return _indexed(different, values)
    if not field.nullable:
        return _shrunk(field, values) or _with_data_page(b"", rows, _PLAIN, _plain(field.kind, values))
    present = [value for value in values if value is not None]
    return _with_data_page(b"", rows, _PLAIN, [_levels(values, len(present)), *_plain(field.kind, present)])


@lru_cache(maxsize=2048)
def _constant(field: Field, value: int | str | None, rows: int) -> _Pages:
    """Encode a column with the same value in all rows."""
    levels = _level_run(rows, 0 if value is None else 1) if field.nullable else b""
    if value is None:
        return _with_data_page(b"", rows, _PLAIN, [levels])
    plain = _plain(field.kind, [value])
    if rows == 1:
        return _with_data_page(b"", rows, _PLAIN, [levels, *plain])
    index = b"\x01" + varint(rows << 1) + b"\0"
    return _with_data_page(_dictionary_page(1, plain), rows, _RLE_DICTIONARY, [levels + index])


def _indexed(different: Sequence[str], values: Sequence[str]) -> _Pages:
    """Encode as a dictionary of at most 256 strings, and one byte a row."""
    rows = len(values)
    number_of = dict(zip(different, range(len(different)), strict=True))
    groups = (rows + 7) // 8
    index = b"\x08" + varint(groups << 1 | 1) + bytes(map(number_of.__getitem__, values)) + bytes(groups * 8 - rows)
    plain = _plain("string", different)
    return _with_data_page(_dictionary_page(len(different), plain), rows, _RLE_DICTIONARY, [index])


def _plain(kind: str, values: Sequence[Any]) -> list[bytes]:
    """Encode as PLAIN, in parts: integers of eight bytes, or each value after its length."""
    if kind == "long":
        return [array("q", values).tobytes()]
    parts: Sequence[bytes] = [value.encode() for value in values] if kind == "string" else values
    if not parts:
        return []
    lengths = list(map(len, parts))
    large = sum(lengths) >= _LARGE_BYTES * len(lengths)
    if not large and lengths.count(lengths[0]) == len(lengths):
        prefix = _LENGTH.pack(lengths[0])
        return [prefix + prefix.join(parts)]
    pairs = [b""] * (2 * len(parts))
    pairs[::2] = map(_LENGTH.pack, lengths)
    pairs[1::2] = parts
    return pairs if large else [b"".join(pairs)]


def _shrunk(field: Field, values: Sequence[bytes]) -> _Pages | None:
    """Encode large binaries by Snappy; None where that does not pay.

    Pages by which more than :data:`_SHRUNK_SHARE` of it all would go are stored as they are.
    """
    if field.kind != "binary" or (total := sum(map(len, values))) < _SHRUNK_BYTES_MIN:
        return None
    step = max(1, len(values) * _SHRUNK_PAGE_BYTES // total)
    parts: list[bytes] = []
    size = plain_size = saved = 0
    for start in range(0, len(values), step):
        chosen = values[start : start + step]
        plain = b"".join(_plain(field.kind, chosen))
        body = _SNAPPY.compress(plain, asbytes=True)
        if not start and len(plain) - len(body) < len(plain) * _PAYS_SHARE:
            return None
        if saved + len(plain) - len(body) > total * _SHRUNK_SHARE:
            body = _stored(plain)
        saved += len(plain) - len(body)
        head = _data_page_head(len(chosen), _PLAIN, (body,), len(plain))
        parts += (head, body)
        size += len(head) + len(body)
        plain_size += len(head) + len(plain)
    return _Pages(b"", tuple(parts), size, _CODEC_SNAPPY, plain_size)


def _stored(content: bytes) -> bytes:
    """Return content as Snappy has what does not shrink."""
    return b"".join((varint(len(content)), _LITERAL, _LENGTH.pack(len(content) - 1), content)) if content else b"\0"


def _levels(values: Sequence[Any], present: int) -> bytes:
    """Encode which values are not null, one bit each."""
    if present == len(values):
        return _level_run(present, 1)
    bits = np.packbits(np.fromiter((value is not None for value in values), bool, len(values)), bitorder="little")
    body = varint(len(bits) << 1 | 1) + bits.tobytes()
    return _LENGTH.pack(len(body)) + body


def _level_run(rows: int, level: int) -> bytes:
    body = varint(rows << 1) + bytes((level,))
    return _LENGTH.pack(len(body)) + body


def _with_data_page(dictionary: bytes, rows: int, encoding: int, body: Sequence[bytes]) -> _Pages:
    size = sum(map(len, body))
    head = _data_page_head(rows, encoding, body, size)
    return _Pages(dictionary, (head, *body), len(head) + size)


def _data_page_head(rows: int, encoding: int, body: Sequence[bytes], plain_size: int) -> bytes:
    about = _i32(1, rows) + _i32(1, encoding) + _i32(1, _RLE) + _i32(1, _RLE) + _STOP
    return _page_head(_DATA_PAGE, body, plain_size) + _field(1, _STRUCT) + about + _STOP


def _dictionary_page(values: int, body: Sequence[bytes]) -> bytes:
    about = _i32(1, values) + _i32(1, _PLAIN) + _STOP
    head = _page_head(_DICTIONARY_PAGE, body, sum(map(len, body))) + _field(3, _STRUCT) + about + _STOP
    return b"".join((head, *body))


def _page_head(kind: int, body: Sequence[bytes], plain_size: int) -> bytes:
    """Encode the first four fields of a page header; the fourth is the body's checksum, as a signed number."""
    size = sum(map(len, body))
    checksum = checksum_of(body)
    signed = checksum - (checksum >> 31 << 32)
    return _i32(1, kind) + _i32(1, plain_size) + _i32(1, size) + _i32(1, signed)


def checksum_of(parts: Iterable[bytes]) -> int:
    """Return the CRC-32 of consecutive parts."""
    running = 0
    for part in parts:
        running = crc32(part, running)
    return running


@lru_cache(maxsize=2048)
def _column_chunk(field: Field, rows: int, place: _PagesPlace) -> bytes:
    name = field.name.encode()
    offset, codec, dictionary_bytes, size, plain_size = place
    encodings = (_RLE, _PLAIN, _RLE_DICTIONARY) if dictionary_bytes else (_RLE, _PLAIN)
    return b"".join(
        (
            _i64(2, 0),
            _field(1, _STRUCT),
            _i32(1, _physical(field)),
            _list(1, _I32, len(encodings)),
            *(varint(encoding << 1) for encoding in encodings),
            _list(1, _BINARY, 1),
            varint(len(name)),
            name,
            _i32(1, codec),
            _i64(1, rows),
            _i64(1, plain_size),
            _i64(1, size),
            _i64(2, offset + dictionary_bytes),
            _i64(2, offset) if dictionary_bytes else b"",
            _STOP,
            _STOP,
        )
    )


def _schema_element(field: Field) -> bytes:
    head = _i32(1, _physical(field)) + _i32(2, int(field.nullable)) + _binary(1, field.name.encode())
    if field.kind != "string":
        return head + _STOP
    return head + _i32(2, 0) + _field(4, _STRUCT) + _field(1, _STRUCT) + _STOP + _STOP + _STOP


def _physical(field: Field) -> int:
    return _INT64 if field.kind == "long" else _BYTE_ARRAY


def _field(step: int, kind: int) -> bytes:
    """Encode the head of a Thrift field whose id is ``step`` above the one before."""
    return bytes((step << 4 | kind,))


def _i32(step: int, value: int) -> bytes:
    return _field(step, _I32) + varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _i64(step: int, value: int) -> bytes:
    return _field(step, _I64) + varint(value << 1)


def _binary(step: int, value: bytes) -> bytes:
    return _field(step, _BINARY) + varint(len(value)) + value


def _list(step: int, kind: int, length: int) -> bytes:
    """Encode the head of a list and of its field; fewer than 15 elements fit into its first byte."""
    return _field(step, _LIST) + (bytes((length << 4 | kind,)) if length < 15 else bytes((0xF0 | kind, length)))


def varint(value: int) -> bytes:
    """Encode a number that is not negative, seven bits a byte."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
