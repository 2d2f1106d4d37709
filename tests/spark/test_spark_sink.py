"""The format ``silt`` as a sink, into a real gateway and into nats-server with JetStream."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from api.spark import register
from tests.servers import nats_server, silt_server
from tests.spark.published import create_stream, stored
from tests.tables import History, Tables

WAIT_SECONDS = 120


@pytest.fixture(scope="module")
def silt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Silt's gateway: the address of its hub and its data."""
    with silt_server(tmp_path_factory.mktemp("silt")) as running:
        yield running.hub.url, running.data


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """nats-server with its own JetStream."""
    with nats_server(tmp_path_factory.mktemp("reference"), jetstream=True) as running:
        yield running.url


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def frame_of(spark: SparkSession, prefix: str, number: int) -> DataFrame:
    """Rows to publish, in two partitions."""
    rows = spark.range(0, number, 1, 2).selectExpr(
        f"concat('{prefix}.', id % 3) AS subject",
        "concat('row ', id) AS data",
        "map('Row', array(cast(id AS STRING), 'twice')) AS headers",
    )
    assert rows.rdd.getNumPartitions() == 2
    return rows


def test_rows_become_messages_and_rows_again(spark: SparkSession, silt: tuple[str, Path]) -> None:
    """What is acknowledged is read back at once by the source, with all headers, unsettled as it is."""
    url, data = silt
    create_stream(url, "ROUND", ["round.>"])
    frame_of(spark, "round", 500).write.format("silt").mode("append").options(servers=url, stream="ROUND").save()
    read = spark.read.format("silt").options(stream="ROUND", includeHeaders="true").load(str(data))
    found = read.selectExpr("subject", "cast(data AS STRING) AS data", "headers['Row'] AS row").collect()
    assert sorted(map(tuple, found)) == sorted(
        (f"round.{at % 3}", f"row {at}", [str(at), "twice"]) for at in range(500)
    )


@pytest.mark.parametrize("server", ["silt", "nats-server"])
def test_a_batch_that_is_repeated_adds_nothing(
    spark: SparkSession, silt: tuple[str, Path], reference: str, tmp_path: Path, server: str
) -> None:
    """A streaming query whose last batch is not known to be committed publishes it again, under the same ids."""
    url = silt[0] if server == "silt" else reference
    create_stream(url, "COPY", ["s.>"])
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{at % 3}", f"m{at}".encode()) for at in range(200))])
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        source = spark.readStream.format("silt").options(stream="S").load(str(tables.data))
        writer = source.select("subject", "data").writeStream.format("silt").options(servers=url, stream="COPY")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_SECONDS)

    run()
    shutil.rmtree(checkpoint / "commits")
    tables.settle()
    run()
    assert sorted(stored(url, "COPY")) == sorted((f"s.{at % 3}", f"m{at}".encode()) for at in range(200))
    tables.commit([history.publish("s.0", b"one more")])
    run()
    assert len(stored(url, "COPY")) == 201


def test_a_refusal_fails_the_task_with_the_servers_words(spark: SparkSession, silt: tuple[str, Path]) -> None:
    """Too large a message, another stream than expected, no stream at all: code and text are in the error."""
    url, _ = silt
    create_stream(url, "SMALL", ["small.>"], max_msg_size=100)
    writer = spark.sql("SELECT 'small.a' AS subject, repeat('x', 1000) AS data").write.format("silt").mode("append")
    with pytest.raises(PySparkException, match=r"publishing to small.a: .*err_code 10054"):
        writer.options(servers=url).save()
    little = spark.sql("SELECT 'small.a' AS subject, 'x' AS data").write.format("silt").mode("append")
    with pytest.raises(PySparkException, match=r"publishing to small.a: .*err_code 10060"):
        little.options(servers=url, stream="OTHER").save()
    with pytest.raises(PySparkException, match=r"publishing to none.a: no stream takes it"):
        spark.sql("SELECT 'none.a' AS subject, 'x' AS data").write.format("silt").mode("append").options(
            servers=url, giveUpSeconds="0.5"
        ).save()
    assert stored(url, "SMALL") == []
    with pytest.raises(PySparkException, match="never overwritten"):
        writer.mode("overwrite").options(servers=url).save()
