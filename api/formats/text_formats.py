"""JSON, NDJSON, CSV and a table for people."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from pyarrow import types

from api.formats.encoding import Encoder
from api.formats.plain_values import plain_values
from api.formats.table_format import TableFormat

_TEXT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_QUOTE: Final = '"'
_SPECIAL: Final = frozenset(',\r\n"')
"""Characters for which a field of CSV is quoted."""


class JsonArray:
    """An encoder of an array of objects, one a line."""

    def __init__(self, schema: Any) -> None:
        self._names, self._before = schema.names, "[\n"

    def add(self, batch: Any) -> bytes:
        """Return the rows as objects."""
        if not len(batch):
            return b""
        before, self._before = self._before, ",\n"
        return (before + ",\n".join(map(_TEXT, _objects(self._names, batch)))).encode()

    def end(self) -> bytes:
        """Close the array."""
        return b"[]\n" if self._before == "[\n" else b"\n]\n"


class JsonLines:
    """An encoder of an object a line."""

    def __init__(self, schema: Any) -> None:
        self._names = schema.names

    def add(self, batch: Any) -> bytes:
        """Return the rows as lines."""
        return "".join(f"{_TEXT(row)}\n" for row in _objects(self._names, batch)).encode()

    def end(self) -> bytes:
        """Return nothing: lines need no end."""
        return b""


class CsvLines:
    """An encoder of lines as in RFC 4180, with a header; null is an empty field."""

    def __init__(self, schema: Any) -> None:
        self._head = _lines([_csv_fields([name]) for name in schema.names])

    def add(self, batch: Any) -> bytes:
        """Return the rows as lines, behind the header if they are the first."""
        return self.end() + _lines([_csv_fields(plain_values(column)) for column in batch.columns])

    def end(self) -> bytes:
        """Return what is left: the header if there were no rows."""
        head, self._head = self._head, b""
        return head


class TextTable:
    """An encoder of a table for people, as wide as the header and the first batch need, with the number of rows."""

    def __init__(self, schema: Any) -> None:
        self._names = list(map(_escaped, schema.names))
        self._right = [_is_number(kind) for kind in schema.types]
        self._widths: list[int] = []
        self._rows = 0

    def add(self, batch: Any) -> bytes:
        """Return the rows, behind the header if they are the first."""
        columns = [_shown(column) for column in batch.columns]
        self._rows += len(batch)
        head = "" if self._widths else self._head(columns)
        return (head + "".join(map(self._line, zip(*columns, strict=True)))).encode()

    def end(self) -> bytes:
        """Return the number of rows, behind the header if there were none."""
        head = "" if self._widths else self._head([[] for _ in self._names])
        return f"{head}({self._rows} row{'' if self._rows == 1 else 's'})\n".encode()

    def _head(self, columns: Sequence[Sequence[str]]) -> str:
        """Set the widths, and return the header."""
        named = zip(self._names, columns, strict=True)
        self._widths = [max(map(len, (name, *column))) for name, column in named]
        names = " | ".join(map(str.center, self._names, self._widths))
        return f" {names.rstrip()}\n{'+'.join('-' * (width + 2) for width in self._widths)}\n"

    def _line(self, row: Sequence[str]) -> str:
        fields = zip(row, self._widths, self._right, strict=True)
        padded = " | ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in fields)
        return f" {padded.rstrip()}\n"


def _objects(names: Sequence[str], batch: Any) -> Iterator[dict[str, Any]]:
    rows: Iterable[Sequence[Any]] = zip(*map(plain_values, batch.columns), strict=True)
    return (dict(zip(names, row, strict=True)) for row in rows)


def _csv_fields(values: Iterable[Any]) -> list[str]:
    """Return values as fields, in quotes where they need them."""
    texts = ["" if value is None else value if isinstance(value, str) else str(_field(value)) for value in values]
    together = "".join(texts)
    if any(char in together for char in _SPECIAL):
        return [f'"{text.replace(_QUOTE, 2 * _QUOTE)}"' if not _SPECIAL.isdisjoint(text) else text for text in texts]
    return texts


def _lines(columns: Sequence[Sequence[str]]) -> bytes:
    """Return columns of fields as lines; a lone field that is empty is quoted, as an empty line is no row."""
    if len(columns) == 1:
        columns = [[text or 2 * _QUOTE for text in columns[0]]]
    return "".join([f"{line}\r\n" for line in map(",".join, zip(*columns, strict=True))]).encode()


def _field(value: Any) -> Any:
    """Return a value as one field."""
    return _TEXT(value) if isinstance(value, bool | list | dict) else value


def _shown(column: Any) -> list[str]:
    """Return a column's values for people: bytes are text if they can be."""
    if types.is_binary(column.type) or types.is_large_binary(column.type):
        return [_escaped("" if value is None else _readable(value)) for value in column.to_pylist()]
    return [_escaped("" if value is None else str(_field(value))) for value in plain_values(column)]


def _readable(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()


def _escaped(text: str) -> str:
    """Return text without what would move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _is_number(kind: Any) -> bool:
    found: bool = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return found


ENCODERS: Final[dict[TableFormat, Callable[[Any], Encoder]]] = {
    TableFormat.TEXT: TextTable,
    TableFormat.JSON: JsonArray,
    TableFormat.NDJSON: JsonLines,
    TableFormat.CSV: CsvLines,
}
