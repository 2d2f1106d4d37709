"""Columns inferred from payloads: what was seen decides, and whatever was taken once stays readable."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import Record, arrow_type, sql_type
from delta_store.typed.inferred_schema import InferredDecoder
from delta_store.typed.payload_decoder import Misfit, Unforeseen
from delta_store.typed.typing_terms import TypingTerms, decoder_of, goes_on, terms_of, widened

NUMBERS = st.integers(-(1 << 65), 1 << 65) | st.floats(allow_nan=False, allow_infinity=False)
NESTED = st.lists(st.integers(0, 3), max_size=2) | st.dictionaries(st.text(max_size=2), st.booleans())
VALUES = st.none() | st.booleans() | NUMBERS | st.text(max_size=3) | NESTED
PAYLOADS = st.dictionaries(st.sampled_from(["a", "B", "b", "c d", "time"]), VALUES, max_size=4)


def _json(*payloads: Any) -> list[bytes]:
    return [json.dumps(payload).encode() for payload in payloads]


@pytest.mark.parametrize(
    ("first", "then", "columns"),
    [
        ([{"a": 1}], [{"a": 2}], "a: bigint"),
        ([{"a": 1}, {"a": 0.5}], [], "a: double"),
        ([{"a": 1}], [{"a": 0.5}], "a: double"),
        ([{"a": None}], [{"a": True}], "a: boolean"),
        ([{"a": 1}, {"a": "x"}], [], "a: string"),
        ([{"a": 1}], [{"a": "x"}], "a: bigint"),
        ([{"a": {"x": 1}}, {"b": [1]}], [{"time": 1}], "a: string, b: string, time_: bigint"),
        ([{"a": 1 << 70}], [], "a: double"),
        ([5, "x", None], [{"a": 1}], "a: bigint"),
    ],
)
def test_types_follow_from_values(first: list[object], then: list[object], columns: str) -> None:
    """And widen, but never change."""
    found = widened(widened(Record(()), _json(*first)), _json(*then))
    assert sql_type(found) == f"struct<{columns}>"


@given(st.lists(PAYLOADS, max_size=6), st.lists(PAYLOADS, max_size=6))
def test_what_was_seen_is_decoded(first: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
    """Each payload is a row or a misfit, and a row stays one when columns are widened."""
    before = widened(Record(()), _json(*first))
    after = widened(before, _json(*then))
    assert widened(after, _json(*first, *then)) == after
    for payload in first:
        assert _is_row(payload, before) <= _is_row(payload, after)
    for payload in then:
        _is_row(payload, after)
    narrower = {column.name: column.type for column in before.columns}
    assert goes_on(before, after) or any(narrower.get(one.name, one.type) != one.type for one in after.columns)


def _is_row(payload: dict[str, Any], columns: Record) -> bool:
    """Whether it is decoded; Arrow then holds it, and unforeseen it is not."""
    decoder = decoder_of(TypingTerms("infer").of_table(columns).schema)
    try:
        decoded = decoder.decode(json.dumps(payload).encode())
    except Misfit:
        return False
    for column, values in zip(columns.columns, decoder.columns([decoded]), strict=True):
        pa.array(values, arrow_type(column.type))
    return True


def test_other_columns_are_told_from_misfits() -> None:
    """A new field and a first fraction need other columns; another type is a misfit."""
    decoder = InferredDecoder(widened(Record(()), _json({"a": 1, "b": True})))
    for payload in ({"c": 1}, {"a": 0.5}):
        with pytest.raises(Unforeseen):
            decoder.decode(json.dumps(payload).encode())
    for text in (b'{"a":"x"}', b'{"b":1}', b"5", b"", b'{"a":1,"A":2}'):
        with pytest.raises(Misfit):
            decoder.decode(text)
    assert decoder.decode(b'{"c":null,"A":7}') == {"a": 7}


def test_fields_without_end_are_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows with others are misfits."""
    monkeypatch.setattr("delta_store.typed.inferred_schema.COLUMNS_MAX", 3)
    columns = widened(Record(()), _json(*({f"k{number}": 1} for number in range(5))))
    assert len(columns.columns) == 3
    with pytest.raises(Misfit, match="3 columns already"):
        InferredDecoder(columns).decode(b'{"k4":1}')


def test_inferred_terms() -> None:
    """There is nothing to refuse by, and columns are not given."""
    terms = terms_of({"silt.schema": "infer"})
    assert terms is not None
    assert terms.infers
    with pytest.raises(BadSchema, match="needs a schema to check by"):
        terms_of({"silt.schema": "infer", "silt.validate": "reject"})
    with pytest.raises(BadSchema, match="infer alone"):
        terms_of({"silt.schema": "infer:{}"})
