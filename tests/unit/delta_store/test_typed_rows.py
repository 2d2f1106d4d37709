"""Messages as typed rows: the flights as pandas has them, and a reason for each message that is no row."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.demo.flights import load_flights
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.typed_rows import MESSAGE_COLUMNS, by_day, last_of_subjects, typed
from delta_store.typed.typing_keys import own_metadata
from delta_store.typed.typing_terms import check_change, decoder_of, terms_in, terms_of
from tests.typed_store import NUMBERS, WORDS, flights_schema

SECOND = 1_000_000_000
DEL = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"


def _messages(
    payloads: list[bytes], subjects: list[str] | None = None, headers: list[bytes | None] | None = None
) -> pa.Table:
    count = len(payloads)
    columns = (
        pa.array(subjects or ["s"] * count, pa.string()),
        pa.array(range(1, count + 1), pa.int64()),
        pa.array([1_763_800_000 * SECOND + place * 3_600 * SECOND for place in range(count)], pa.int64()),
        pa.nulls(count, pa.string()),
        pa.array(headers or [None] * count, pa.binary()),
        pa.array(payloads, pa.binary()),
    )
    return pa.table(columns, names=MESSAGE_COLUMNS)


def test_flights_are_what_pandas_has() -> None:
    """Every column with its type; of each hundredth, which was spoilt, the reason."""
    flights = load_flights(3000)
    payloads = list(flights.payloads)
    spoilt = range(99, 3000, 100)
    for place in spoilt:
        payloads[place] = payloads[place].replace(b'"distance":', b'"distance":"far",":"', 1)[:-1] + b'":0}'
    found = typed(_messages(payloads), decoder_of(json.dumps(flights_schema(flights.frame))))
    kept = np.setdiff1d(np.arange(3000), spoilt)
    assert found.rows["seq"].to_pylist() == (kept + 1).tolist()
    frame = flights.frame.iloc[kept].reset_index(drop=True)
    for name in frame:
        column = found.rows[name].to_pandas()
        expected = pd.to_datetime(frame[name], utc=True) if name == "time_hour" else frame[name]
        pd.testing.assert_series_equal(column, expected, check_dtype=expected.dtype.kind in "if")
    assert found.rejected["seq"].to_pylist() == [place + 1 for place in spoilt]
    assert set(found.rejected["reason"].to_pylist()) == {"Expected `int`, got `str` - at `$.distance`"}
    assert found.rejected["payload"].to_pylist() == [payloads[place] for place in spoilt]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3) | st.text(max_size=1) | st.none()), max_size=12))
def test_each_message_is_one_row_of_one_table(entries: list[tuple[str, int | str | None]]) -> None:
    """In its order; the last of each subject is the one with the highest sequence."""
    subjects = [subject for subject, _ in entries]
    messages = _messages([json.dumps({"n": value}).encode() for _, value in entries], subjects)
    found = typed(messages, decoder_of(json.dumps(NUMBERS)))
    fits = [place for place, (_, value) in enumerate(entries, 1) if isinstance(value, int)]
    assert found.rows["seq"].to_pylist() == fits
    assert found.rejected["seq"].to_pylist() == sorted(set(range(1, len(entries) + 1)) - set(fits))
    assert found.rows["n"].to_pylist() == [entries[place - 1][1] for place in fits]
    newest = {subjects[place - 1]: place for place in fits}
    assert last_of_subjects(found.rows)["seq"].to_pylist() == sorted(newest.values())
    days = list(by_day(found.rows))
    assert sum(rows.num_rows for _, rows in days) == len(fits)
    for day, rows in days:
        assert {f"{time:%Y-%m-%d}" for time in rows["time"].to_pylist()} == {day}


def test_what_arrow_can_not_hold_is_a_misfit_too() -> None:
    """Such as a time before the year 1 in UTC; its neighbours are kept."""
    schema = {"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}}
    payloads = [b'{"t":"0001-01-01T00:00:00+10:00"}', b'{"t":"2026-01-01T00:00:00Z"}', b'{"t":5}']
    found = typed(_messages(payloads), decoder_of(json.dumps(schema)))
    assert found.rows["seq"].to_pylist() == [2]
    assert found.rejected["seq"].to_pylist() == [1, 3]
    assert "column `t`" in found.rejected["reason"][0].as_py()


def test_a_deletion_is_no_row() -> None:
    """Nor a dead letter."""
    found = typed(_messages([b"", b""], headers=[DEL, None]), decoder_of(json.dumps(NUMBERS)))
    assert (found.rows.num_rows, found.rejected["seq"].to_pylist()) == (0, [2])


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"silt.table": "newest"}, "silt.table is append or latest"),
        ({"silt.validate": "no"}, "silt.validate is dlq or reject"),
        ({"silt.table": "latest"}, "silt.table needs silt.schema"),
        ({"silt.schema": "{"}, "no JSON"),
    ],
)
def test_terms_that_can_not_be_are_refused(metadata: dict[str, str], reason: str) -> None:
    """By the key."""
    with pytest.raises(BadSchema, match=reason):
        terms_of(metadata)


def test_terms_are_read_from_metadata() -> None:
    """Other keys are not looked at."""
    schema = json.dumps(NUMBERS)
    terms = terms_of({"silt.schema": schema, "silt.table": "latest", "silt.validate": "reject", "other": "x"})
    assert terms == (schema, True, True)
    assert terms_of({"other": "x"}) is None
    assert terms_in(own_metadata({"silt.schema": schema, "other": "x"})) == (schema, False, False)
    assert own_metadata({"other": "x"}) == ""
    assert terms_in("") is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"m": {}}}, "column 'n' is gone"),
        ({"type": "object", "properties": {"n": {"type": "number"}}}, "from bigint into double"),
        ({**WORDS, "required": ["n", "word"]}, "new column 'word' is required"),
    ],
)
def test_only_optional_columns_may_be_added(schema: object, reason: str) -> None:
    """Any other change is refused, with what can be done instead."""
    old = json.dumps(NUMBERS)
    check_change(old, json.dumps(WORDS))
    check_change(old, json.dumps({**NUMBERS, "properties": {"n": {"type": "integer", "minimum": 1}}}))
    with pytest.raises(BadSchema, match=reason) as caught:
        check_change(old, json.dumps(schema))
    assert "take silt.schema away" in str(caught.value)
