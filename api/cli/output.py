"""The output of a verb: a table for people, or JSON, NDJSON or CSV for programs.

Every format has every column; column names are part of the interface and do not change.
"""

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Format(StrEnum):
    """The values of ``--output``."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How results are printed.")]
"""The option of every verb that prints a table."""


class Output:
    """A printer of results to ``stream`` in one format."""

    def __init__(self, kind: Format, stream: TextIO | None = None) -> None:
        self._format = kind
        self._stream = stream or sys.stdout

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
        """Print rows; in JSON an array of objects, in NDJSON an object a line."""
        match self._format:
            case Format.TEXT:
                self._text_table(columns, rows, title)
            case Format.CSV:
                writer = csv.writer(self._stream)
                writer.writerow(columns)
                writer.writerows([_flat(value) for value in row] for row in rows)
            case Format.NDJSON:
                for row in rows:
                    self._line(dict(zip(columns, row, strict=True)))
            case Format.JSON:
                self._json([dict(zip(columns, row, strict=True)) for row in rows])

    def record(self, fields: Mapping[str, Any], *, title: str = "") -> None:
        """Print one record with its fields."""
        match self._format:
            case Format.TEXT:
                self._text_table(("", ""), list(fields.items()), title, header=False)
            case Format.CSV:
                self.table(list(fields), [list(fields.values())])
            case Format.NDJSON:
                self._line(fields)
            case Format.JSON:
                self._json(fields)

    def _text_table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str, *, header: bool = True
    ) -> None:
        table = Table(title=title or None, title_justify="left", show_header=header)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(_flat(value)) for value in row))
        Console(file=self._stream, soft_wrap=False).print(table)

    def _json(self, value: Any) -> None:
        self._stream.write(json.dumps(value, indent=2, default=_plain) + "\n")

    def _line(self, value: Any) -> None:
        self._stream.write(json.dumps(value, separators=(",", ":"), default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Return a value that JSON has: bytes as UTF-8 text, else hexadecimal; times by ISO 8601."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
    return str(value)


def _flat(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=_plain)
    return str(_plain(value))
