"""Rows in and out: pushed filters, Arrow batches, messages of a sink."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from api.spark.columns import batches_of, sources_of
from api.spark.pushdown import Pushed, pushed
from api.spark.sink_columns import MessageIds, SinkColumns, outgoing
from delta_store.reading.message_bounds import MessageBounds

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([GreaterThan(("seq",), 5), LessThanOrEqual(("seq",), 9)], MessageBounds(seqs=(6, 9))),
        ([GreaterThanOrEqual(("seq",), 5), LessThan(("seq",), 9)], MessageBounds(seqs=(5, 8))),
        ([EqualTo(("seq",), 5)], MessageBounds(seqs=(5, 5))),
        ([GreaterThanOrEqual(("time",), AT)], MessageBounds(times=(AT_NS, MessageBounds().times[1]))),
        ([GreaterThan(("time",), AT)], MessageBounds(times=(AT_NS + 1000, MessageBounds().times[1]))),
        ([EqualTo(("time",), AT)], MessageBounds(times=(AT_NS, AT_NS + 999))),
        ([LessThan(("time",), AT)], MessageBounds(times=(0, AT_NS - 1))),
        ([LessThanOrEqual(("time",), AT)], MessageBounds(times=(0, AT_NS + 999))),
        ([LessThan(("ts_ns",), 77)], MessageBounds(times=(0, 76))),
        ([EqualTo(("subject",), "a"), IsNotNull(("subject",))], MessageBounds(subjects=frozenset("a"))),
        ([In(("subject",), ("a", "b")), In(("subject",), ("b", "c"))], MessageBounds(subjects=frozenset("b"))),
        ([StringStartsWith(("subject",), "a."), StringStartsWith(("subject",), "a.b")], MessageBounds(prefix="a.b")),
        ([StringStartsWith(("subject",), one) for one in "ab"], MessageBounds(prefix="a", subjects=frozenset())),
    ],
)  # fmt: skip
def test_filters_become_bounds(filters: list[Filter], bounds: MessageBounds) -> None:
    """What is fulfilled here Spark need not apply again."""
    assert pushed(Pushed(MessageBounds()), filters) == (Pushed(bounds), [])


def test_a_stream_is_chosen() -> None:
    """Filters on the stream's name leave whole streams out."""
    found, left = pushed(Pushed(MessageBounds()), [In(("stream",), ("A", "B")), EqualTo(("stream",), "B")])
    assert (found.streams, left) == (frozenset("B"), [])


def test_other_filters_are_left_to_spark() -> None:
    """Negations, payloads, parts of subjects and times without a zone stay with Spark."""
    filters = [
        Not(EqualTo(("seq",), 5)),
        EqualTo(("data",), b"x"),
        IsNotNull(("headers",)),
        StringContains(("subject",), "a"),
        GreaterThan(("time",), AT.replace(tzinfo=None)),
        EqualTo(("seq",), None),
        EqualTo(("headers", "x"), "y"),
    ]
    assert pushed(Pushed(MessageBounds()), filters) == (Pushed(MessageBounds()), filters)


def test_messages_as_batches() -> None:
    """Every column has the type that Spark expects; repeated headers keep their values."""
    block = b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n"
    table = pa.table(
        {
            "subject": pa.array(["s", "t"]).dictionary_encode(),
            "seq": [1, 2],
            "ts_ns": [AT_NS + 1999, AT_NS],
            "data": pa.array([b"x", b"y"], pa.binary()),
            "headers": pa.array([block, None], pa.binary()),
        }
    )
    names = ("stream", "subject", "seq", "time", "data", "headers")
    assert sources_of(names) == ("subject", "seq", "ts_ns", "data", "headers")
    [batch] = batches_of("S", names, table)
    assert batch.to_pylist() == [
        {
            "stream": "S", "subject": "s", "seq": 1, "time": AT + timedelta(microseconds=1), "data": b"x",
            "headers": [("A", ["1", "3"]), ("B", ["2"])],
        },
        {"stream": "S", "subject": "t", "seq": 2, "time": AT, "data": b"y", "headers": None},
    ]  # fmt: skip
    assert batch.schema.field("subject").type == pa.string()
    assert sources_of(("stream",)) == ("seq",)


def test_rows_as_messages() -> None:
    """Ids are the row's own where it has one; of a header's values each is sent."""
    columns = SinkColumns(None, headers=True, msg_id=True)
    batch = pa.record_batch(
        {
            "subject": ["a", "a", "b", "b"],
            "data": ["x", "x", None, "y"],
            "headers": pa.array(
                [[("A", ["1", "2"])], None, [("Nats-Msg-Id", ["own"])], []], pa.map_(pa.string(), pa.list_(pa.string()))
            ),
            "msg_id": [None, None, None, "mine"],
        }
    )
    first, _, third, fourth = outgoing(columns, batch, MessageIds("q-1-0"))
    assert (first.subject, first.data) == ("a", b"x")
    assert {name: value for name, value in first.headers.items() if name != "Nats-Msg-Id"} == {"A": "1", "A ": "2"}
    assert (third.data, third.headers) == (b"", {"Nats-Msg-Id": "own"})
    assert fourth.headers == {"Nats-Msg-Id": "mine"}
    nameless = pa.record_batch({"subject": pa.array([None], pa.string()), "data": pa.array(["x"])})
    with pytest.raises(ValueError, match="a row has no subject"):
        list(outgoing(SinkColumns(None, headers=False, msg_id=False), nameless, MessageIds("")))


def test_a_row_has_the_same_id_when_its_task_is_repeated() -> None:
    """In whatever order, and without other rows; equal rows have ids of their own."""
    columns = SinkColumns("s", headers=False, msg_id=False)

    def ids(rows: list[str], prefix: str = "q-1-0") -> list[str]:
        batches = [pa.record_batch({"data": rows[:3]}), pa.record_batch({"data": rows[3:]})]
        known = MessageIds(prefix)
        return [one.headers["Nats-Msg-Id"] for batch in batches for one in outgoing(columns, batch, known)]

    rows = ["a", "b", "a", "c", "a", ""]
    assert len(set(ids(rows))) == 6
    assert set(ids(rows[::-1])) == set(ids(rows))
    assert set(ids(["c", "a", "a"])) < set(ids(rows))
    assert not set(ids(rows)) & set(ids(rows, "q-2-0"))
