"""Options of reads and writes: what they mean, and what is refused by which words."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from api.spark.columns import names_in, schema_of
from api.spark.read_options import OptionError, ReadOptions, ReadStart, read_options
from api.spark.sink_columns import sink_columns
from api.spark.write_options import write_options
from delta_store.reading.message_bounds import LATEST_NS
from delta_store.reading.state_at import END
from delta_store.values.as_of import AsOf

NOW = 1_800_000_000_000_000_000
NOON = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) * 10**9


TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def schema(**types: DataType) -> StructType:
    """A schema with these columns."""
    return StructType([StructField(name, kind) for name, kind in types.items()])


def batch(**given: str) -> ReadOptions:
    """Options of a batch of stream A, and others."""
    return read_options({"path": "/data", "stream": "A", **given}, streaming=False, now_ns=NOW)


def stream(**given: str) -> ReadOptions:
    """Options of a streaming query on stream A, and others."""
    return read_options({"path": "/data", "stream": "A", **given}, streaming=True, now_ns=NOW)


def test_the_defaults_of_batch_and_stream() -> None:
    """A batch shows what is live, a stream the log; both fail where messages are missing."""
    for options, live in ((batch(), True), (stream(), False)):
        assert (options.streams, options.filters, options.live) == (("A",), (">",), live)
        assert (options.start, options.fail_on_data_loss, options.include_headers) == (ReadStart(), True, False)
        assert (options.end_seq, options.end_ns, options.max_messages) == (END, LATEST_NS, None)


def test_points_and_ranges() -> None:
    """Sequences are inclusive, an ending time and a point's time exclusive, ages count from now."""
    assert batch(STARTINGSEQUENCE="5", endingSequence="9").start == ReadStart(seq=5)
    assert batch(startingTime="2026-01-31T12:00:00Z").start == ReadStart(ts_ns=NOON)
    assert batch(startingTime="1m").start == ReadStart(ts_ns=NOW - 60 * 10**9)
    assert batch(endingTime="2026-01-31 12:00").end_ns == NOON - 1
    assert batch(asOf="12").as_of == AsOf(seq=12)
    assert batch(asOf="1h ago").as_of == AsOf(before_ns=NOW - 3600 * 10**9)
    assert batch(asOf="cut:c", stream="S T").as_of == AsOf(cut="c")
    assert stream(startingPosition="Latest").start == ReadStart(latest=True)
    assert stream(maxMessagesPerTrigger="10", live="TRUE", failOnDataLoss="false").max_messages == 10
    assert batch(subject="a.> b.*").filters == ("a.>", "b.*")


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"path": ""}, False, "give the data folder or URL"),
        ({"stream": " "}, False, "option stream=' ': it is empty"),
        ({"subject": "a..b"}, False, "'a..b' is no subject filter"),
        ({"startSequence": "1"}, False, "no such option: startsequence; there are path, stream"),
        ({"startingSequence": "0"}, False, "a number from 1 on"),
        (
            {"startingSequence": "1", "startingTime": "1h"},
            False,
            "startingSequence and startingTime exclude each other",
        ),
        ({"startingTime": "12"}, False, "a time such as"),
        ({"startingTime": "noon"}, False, "no time such as"),
        ({"startingPosition": "end"}, True, "earliest or latest"),
        ({"startingPosition": "latest"}, False, "is for streaming queries"),
        ({"endingSequence": "3", "asOf": "4"}, False, "exclude each other"),
        ({"endingSequence": "3"}, True, "endingSequence is for batch queries"),
        ({"maxMessagesPerTrigger": "3"}, False, "is for streaming queries"),
        ({"live": "yes"}, False, "true or false"),
        ({"stream": "A B", "asOf": "3"}, False, "a sequence means one stream"),
        ({"path": "s3://bucket/data", "storage.color": "red"}, False, "no such option: storage.color"),
        ({"path": "ftp://host/data"}, False, "is no place for tables"),
    ],
)
def test_wrong_read_options(given: dict[str, str], streaming: bool, said: str) -> None:
    """Each is refused by a sentence that names the option."""
    with pytest.raises(OptionError, match=said.replace(".", r"\.")):
        read_options({"path": "/data", "stream": "A"} | given, streaming=streaming, now_ns=NOW)


def test_storage_settings_reach_the_location(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options win over the environment, and what a task gets has both."""
    monkeypatch.setenv("SILT_STORAGE__REGION", "mars")
    monkeypatch.setenv("SILT_STORAGE__ENDPOINT", "https://env")
    options = batch(
        path="s3://bucket/data",
        **{"storage.endpoint": "https://store", "storage.access_key_id": "k", "storage.secret_access_key": "s"},
    )
    assert options.data.uri == "s3://bucket/data"
    assert options.data.options["AWS_ENDPOINT_URL"] == "https://store"
    assert options.data.options["AWS_REGION"] == "mars"
    assert options.data.options["AWS_SECRET_ACCESS_KEY"] == "s"


def test_schemas_of_reads() -> None:
    """A schema of its own chooses columns; one that there is not, or of another type, is refused."""
    assert names_in(schema_of(headers=True))[-1] == "headers"
    assert names_in(schema(ts_ns=LONG, subject=TEXT)) == ("ts_ns", "subject")
    for wrong in (schema(seq=INT), schema(sequence=LONG)):
        with pytest.raises(OptionError, match="there are stream string, subject string"):
            names_in(wrong)


@pytest.mark.parametrize(
    ("columns", "subject", "said"),
    [
        ({"subject": TEXT}, None, "column data"),
        ({"subject": TEXT, "data": INT}, None, "column data"),
        ({"subject": TEXT, "data": BYTES, "seq": LONG}, None, "column seq: a sink takes subject STRING"),
        ({"subject": TEXT, "data": TEXT, "headers": TEXT}, None, "column headers"),
        ({"data": TEXT}, None, "give the subject by a column or by the option"),
        ({"data": TEXT, "subject": TEXT}, "a", "not by both"),
    ],
)
def test_wrong_columns_of_a_sink(columns: dict[str, DataType], subject: str | None, said: str) -> None:
    """Each is refused by a sentence that names the column."""
    with pytest.raises(OptionError, match=said):
        sink_columns(schema(**columns), subject)


def test_write_options(tmp_path: Path) -> None:
    """The driver reads credentials, so that tasks need no files."""
    (tmp_path / "c.creds").write_text("secret")
    options = write_options(
        {"servers": "nats://a, nats://b", "credentials": str(tmp_path / "c.creds"), "maxInFlight": "5"}, overwrite=False
    )
    assert (options.servers, options.in_flight) == (("nats://a", "nats://b"), 5)
    assert options.login == {"credentials": "secret"}
    assert "secret" not in repr(options)
    assert write_options({"url": "a"}, overwrite=False).write_id != options.write_id
    for given, said in (
        ({}, "give the NATS servers"),
        ({"servers": "a", "sbject": "b"}, "no such option: sbject"),
        ({"servers": "a", "subject": "b.*"}, "no subject to publish to"),
        ({"servers": "a", "maxInFlight": "none"}, "a number above 0"),
        ({"servers": "a", "credentials": str(tmp_path / "none")}, "the driver can't read the file"),
    ):
        with pytest.raises(OptionError, match=said):
            write_options(given, overwrite=False)
    with pytest.raises(OptionError, match="never overwritten"):
        write_options({"servers": "a"}, overwrite=True)
