"""One result, four formats."""

import csv
import io
import json

import pytest

from api.cli.output import Format, Output

COLUMNS = ("stream", "messages", "data", "missing")
ROWS = [("A", 1, b"text", None), ("[bold]B", 2, b"\xff\x00", None)]


def _printed(kind: Format) -> str:
    stream = io.StringIO()
    Output(kind, stream).table(COLUMNS, ROWS, title="streams")
    return stream.getvalue()


def test_json_is_an_array_of_objects_with_every_column() -> None:
    """Bytes are text where they can be, else hexadecimal; nothing is null but None."""
    assert json.loads(_printed(Format.JSON)) == [
        {"stream": "A", "messages": 1, "data": "text", "missing": None},
        {"stream": "[bold]B", "messages": 2, "data": "ff00", "missing": None},
    ]


def test_ndjson_is_an_object_a_line() -> None:
    """The same objects, for programs that read line by line."""
    lines = _printed(Format.NDJSON).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(_printed(Format.JSON))


def test_csv_has_a_header_and_empty_fields() -> None:
    """None is an empty field."""
    assert list(csv.reader(io.StringIO(_printed(Format.CSV)))) == [
        list(COLUMNS),
        ["A", "1", "text", ""],
        ["[bold]B", "2", "ff00", ""],
    ]


def test_text_shows_values_as_they_are() -> None:
    """A value is never taken for markup."""
    shown = _printed(Format.TEXT)
    assert "[bold]B" in shown
    assert "streams" in shown


@pytest.mark.parametrize("kind", list(Format))
def test_no_rows_are_no_error(kind: Format) -> None:
    """An empty result is a result."""
    stream = io.StringIO()
    Output(kind, stream).table(COLUMNS, [])
    assert (stream.getvalue() == "[]\n") == (kind is Format.JSON)


def test_a_record_in_json_keeps_its_nesting() -> None:
    """What the API said is passed on whole."""
    stream = io.StringIO()
    Output(Format.JSON, stream).record({"config": {"name": "A"}, "state": {"messages": 1}})
    assert json.loads(stream.getvalue()) == {"config": {"name": "A"}, "state": {"messages": 1}}
