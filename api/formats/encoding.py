"""The one way from record batches to bytes.

Each format is streamed: bytes are made of the batches given so far, so a table is never in memory as a whole.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from api.formats.table_format import TableFormat

_PART_ROWS: Final = 8_192
"""Rows that are encoded at a time."""


class Encoder(Protocol):
    """A table on its way to bytes."""

    def add(self, batch: Any) -> bytes:
        """Return the bytes that a ``pyarrow.RecordBatch`` of the schema adds, maybe none yet."""
        ...

    def end(self) -> bytes:
        """Return the last bytes; nothing may be added afterwards."""
        ...


def encoder(kind: TableFormat, schema: Any) -> Encoder:
    """Return an encoder for a ``pyarrow.Schema``. Columns of equal names are numbered: ``a``, ``a_1``."""
    names = distinct(schema.names)
    if names != schema.names:
        import pyarrow as pa

        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    if kind.is_binary:
        from api.formats.arrow_formats import ENCODERS as BINARY

        return BINARY[kind](schema)
    from api.formats.text_formats import ENCODERS as TEXT

    return TEXT[kind](schema)


def encode(kind: TableFormat, schema: Any, batches: Iterable[Any]) -> Iterator[bytes]:
    """Iterate over the chunks of a whole table, of which there may be no batches. Raises what ``batches`` raises."""
    table = encoder(kind, schema)
    for batch in batches:
        for start in range(0, len(batch), _PART_ROWS):
            if chunk := table.add(batch.slice(start, _PART_ROWS)):
                yield chunk
    if rest := table.end():
        yield rest


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names; one that was there before gets the first number that makes it new."""
    taken, numbers, result = set(names), Counter[str](), list[str]()
    for name in names:
        chosen = name
        while chosen in result:
            numbers[name] += 1
            numbered = f"{name}_{numbers[name]}"
            chosen = chosen if numbered in taken else numbered
        result.append(chosen)
    return result
