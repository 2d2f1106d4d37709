"""Parquet files that are another one's bytes and a few columns more: columns of one value behind its end. Pure.

A Parquet file is read from its end, and its footer says where each column of each row group lies. So new columns and a
new footer behind a whole file make a file of the old rows in which these columns are others: a true one, to any reader.
No value of the other columns is decoded, and a disk that can share blocks between files stores them once.

The new columns stand last in the file's schema, as readers that divide a file by bytes (parquet-java) take a row group
to begin with its first column. Source: Apache Parquet format, ``parquet.thrift``; Thrift's compact protocol.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_store.entries.parquet_file import MAGIC, varint

TAIL_BYTES: Final = 8
"""The end of a file: the footer's length and the magic number."""
OWN_WRITER: Final = "parquet-cpp-arrow"
"""How the files begin to name their writer whose footers hold nothing that would have to be changed as well."""
_LENGTH: Final = Struct("<I")
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTS: Final = frozenset((4, 5, 6))
_SCHEMA, _ROW_GROUPS = 2, 4
"""Fields of a file's metadata."""
_COLUMNS, _ALL_BYTES, _PACKED_BYTES = 1, 2, 6
"""Fields of a row group."""
_META_DATA = 3
"""Field of a column chunk."""
_PLACES: Final = frozenset((9, 10, 11))
"""Fields of a column chunk's metadata that are places in the file."""


class Graft(NamedTuple):
    """What makes the new file."""

    more: bytes
    """The bytes behind those of the old file."""
    metadata: pq.FileMetaData
    """The new file's."""


class _Field(NamedTuple):
    """A field of a Thrift struct, by its bytes."""

    number: int
    kind: int
    head: int
    """Where the field begins."""
    start: int
    """Where its value begins."""
    end: int


class _Chunk(NamedTuple):
    """A column chunk that is to stand anywhere."""

    parts: tuple[bytes, ...]
    """Its metadata between the places."""
    places: tuple[int, ...]
    """Places in the file that it was written to."""

    def moved(self, by: int) -> bytes:
        out = [self.parts[0]]
        for place, part in zip(self.places, self.parts[1:], strict=True):
            out += (_zigzag(place + by), part)
        return b"".join(out)


class _NewColumns(NamedTuple):
    """Columns of as many rows as a row group has."""

    pages: bytes
    chunks: tuple[_Chunk, ...]
    size: int
    """Bytes of the pages before compression."""


def footer_bytes(tail: bytes) -> int:
    """Return how long the footer in front of a file's last :data:`TAIL_BYTES` is; raise ``ValueError``."""
    if len(tail) != TAIL_BYTES or tail[-len(MAGIC) :] != MAGIC:
        raise ValueError("not the end of a Parquet file")
    length: int = _LENGTH.unpack_from(tail)[0]
    return length


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """Parse a footer; raise ``ValueError`` for a damaged one."""
    try:
        return pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, _LENGTH.pack(len(footer)), MAGIC))))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error


def graft(footer: bytes, before: pq.FileMetaData, size: int, values: Mapping[str, int]) -> Graft:
    """Return what a file of so many bytes becomes by integer columns of one value each, by the columns' names.

    ``before`` is the footer parsed, which must be one that :func:`can_take`.
    """
    names = [before.schema.column(place).name for place in range(before.num_columns)]
    own = [place for place, name in enumerate(names) if name not in values]
    grown, wanted = bytearray(), tuple(values.items())
    groups: list[bytes] = []
    found = {field.number: field for field in _fields(footer, 0)}
    for number, (start, end) in enumerate(_elements(footer, found[_ROW_GROUPS].start)):
        rows = before.row_group(number).num_rows
        new = _constant(wanted, rows)
        groups.append(_group(footer[start:end], own, new, size + len(grown) - len(MAGIC)))
        grown += new.pages
    elements = _elements(footer, found[_SCHEMA].start)
    [root, *leaves] = [footer[start:end] for start, end in elements]
    behind = [names.index(name) for name in values]
    schema = [root, *(leaves[place] for place in (*own, *behind))]
    new_footer = _replaced(footer, {_SCHEMA: _list(schema), _ROW_GROUPS: _list(groups)})
    more = b"".join((bytes(grown), new_footer, _LENGTH.pack(len(new_footer)), MAGIC))
    return Graft(more, metadata_of(new_footer))


def can_take(metadata: pq.FileMetaData, names: Sequence[str]) -> bool:
    """Whether a file has just these columns, flat, and nothing else in it depends on where they are."""
    if not (metadata.created_by or "").startswith(OWN_WRITER) or metadata.metadata or not metadata.num_rows:
        return False
    schema = metadata.schema
    found = [schema.column(place).path for place in range(metadata.num_columns)]
    plain = all(schema.column(place).max_repetition_level == 0 for place in range(metadata.num_columns))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    free = not any(
        group.sorting_columns or group.column(0).has_column_index or group.column(0).has_offset_index
        for group in groups
    )
    return plain and free and sorted(found) == sorted(names)


@lru_cache(maxsize=64)
def _constant(values: tuple[tuple[str, int], ...], rows: int) -> _NewColumns:
    """Write columns of one value each."""
    sink = pa.BufferOutputStream()
    table = pa.table({name: pa.repeat(pa.scalar(value, pa.int64()), rows) for name, value in values})
    pq.write_table(table, sink, row_group_size=rows, write_page_checksum=True, store_schema=False)
    body = sink.getvalue().to_pybytes()
    end = len(body) - TAIL_BYTES
    start = end - footer_bytes(body[end:])
    footer = body[start:end]
    [group] = _elements(footer, next(one.start for one in _fields(footer, 0) if one.number == _ROW_GROUPS))
    held = footer[slice(*group)]
    fields = {field.number: field for field in _fields(held, 0)}
    chunks = tuple(_chunk(held[first:last]) for first, last in _elements(held, fields[_COLUMNS].start))
    return _NewColumns(body[len(MAGIC) : start], chunks, _read(held, fields[_ALL_BYTES]))


def _chunk(held: bytes) -> _Chunk:
    """Cut the metadata of a column chunk at the places in it."""
    about = next(field for field in _fields(held, 0) if field.number == _META_DATA)
    parts, places, done = [], [], 0
    for field in _fields(held, about.start):
        if field.number in _PLACES:
            parts.append(held[done : field.start])
            places.append(_signed(_varint_at(held, field.start)[0]))
            done = field.end
    return _Chunk((*parts, held[done:]), tuple(places))


def _group(group: bytes, own: Sequence[int], new: _NewColumns, moved: int) -> bytes:
    """Return a row group with its own columns at these places, and new ones behind them."""
    fields = {field.number: field for field in _fields(group, 0)}
    chunks = [group[start:end] for start, end in _elements(group, fields[_COLUMNS].start)]
    columns = [*(chunks[place] for place in own), *(chunk.moved(moved) for chunk in new.chunks)]
    changed = {_COLUMNS: _list(columns), _ALL_BYTES: _zigzag(_read(group, fields[_ALL_BYTES]) + new.size)}
    if _PACKED_BYTES in fields:
        changed[_PACKED_BYTES] = _zigzag(_read(group, fields[_PACKED_BYTES]) + len(new.pages))
    return _replaced(group, changed)


def _replaced(struct: bytes, values: Mapping[int, bytes]) -> bytes:
    """Return a struct with other values of some of its fields."""
    parts: list[bytes] = []
    done = 0
    for field in _fields(struct, 0):
        if field.number in values:
            parts += (struct[done : field.start], values[field.number])
            done = field.end
    return b"".join((*parts, struct[done:]))


def _list(structs: Sequence[bytes]) -> bytes:
    head = (
        bytes((len(structs) << 4 | _STRUCT,)) if len(structs) < 15 else bytes((0xF0 | _STRUCT,)) + varint(len(structs))
    )
    return b"".join((head, *structs))


def _fields(data: bytes, at: int) -> Iterator[_Field]:
    """Iterate over the fields of the struct that begins here."""
    number = 0
    while data[at]:
        head, kind, step = at, data[at] & 0x0F, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            said, at = _varint_at(data, at)
            number = _signed(said)
        end = at if kind in (_TRUE, _FALSE) else _skipped(data, at, kind)
        yield _Field(number, kind, head, at, end)
        at = end


def _elements(data: bytes, at: int) -> list[tuple[int, int]]:
    """Return where each of the structs in the list that begins here begins and ends."""
    number, kind, at = _list_head(data, at)
    if kind != _STRUCT:
        raise ValueError("a list of something else")
    found = []
    for _ in range(number):
        end = _skipped(data, at, _STRUCT)
        found.append((at, end))
        at = end
    return found


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    number, kind = data[at] >> 4, data[at] & 0x0F
    return (number, kind, at + 1) if number < 15 else (*_varint_at(data, at + 1)[:1], kind, _varint_at(data, at + 1)[1])


def _skipped(data: bytes, at: int, kind: int) -> int:
    """Return where the value of a kind that begins here ends."""
    if kind in _INTS:
        while data[at] & 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _varint_at(data, at)
        return at + length
    if kind == _STRUCT:
        while head := data[at]:
            at = at + 1 if head >> 4 else _varint_at(data, at + 1)[1]
            at = at if head & 0x0F in (_TRUE, _FALSE) else _skipped(data, at, head & 0x0F)
        return at + 1
    if kind in (_LIST, _SET):
        number, inner, at = _list_head(data, at)
        for _ in range(number):
            at = at + 1 if inner in (_TRUE, _FALSE) else _skipped(data, at, inner)
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    raise ValueError(f"a field of kind {kind}")


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def _signed(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _zigzag(value: int) -> bytes:
    return varint(value << 1)


def _read(data: bytes, field: _Field) -> int:
    return _signed(_varint_at(data, field.start)[0])
