"""How fast Spark writes streams and reads them: whole queries by the format ``silt``, on a session that runs already.

Written into Silt and into nats-server with JetStream, read unsettled, settled, and as a stream; payloads have the size
of the other loads'. A first, small query of each kind is not counted: it starts Python's workers.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from api.spark import register
from delta_store.settling.spark_session import open_session
from tests.benchmarks.loads import SIZE, STREAM, create_stream
from tests.benchmarks.replay import settle
from tests.servers import nats_server, silt_server

FEW_ROWS = 1_000
SUBJECTS = 10
Runs = dict[str, dict[str, list[dict[str, float]]]]


def spark_rates(folder: Path, *, rows: int, repetitions: int) -> Runs:
    """Messages per second, in the shape of ``report.Runs``."""
    runs: Runs = {"nats-server": {}, "silt": {}}
    spark = open_session("bench", master="local[2]", spark__driver__memory="2g")
    register(spark)
    try:
        for _ in range(repetitions):
            _measure(spark, folder, rows, runs)
    finally:
        spark.stop()
    return runs


def _measure(spark: SparkSession, folder: Path, rows: int, runs: Runs) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def timed(contender: str, load: str, query: Callable[[int], None]) -> None:
        query(FEW_ROWS)
        began = time.monotonic()
        query(rows)
        seconds = time.monotonic() - began
        runs[contender].setdefault(load, []).append({"rate": rows / seconds, "seconds": seconds})

    with nats_server(folder / "nats-server", jetstream=True) as server:
        create_stream(server.url, subjects="bench.>")
        timed("nats-server", "spark write", lambda number: _write(spark, server.url, number))
    with silt_server(folder / "silt") as running:
        create_stream(running.hub.url, subjects="bench.>")
        timed("silt", "spark write", lambda number: _write(spark, running.hub.url, number))
    data = folder / "silt" / "data"
    timed("silt", "spark read unsettled", lambda number: _read(spark, data, number))
    settle(data)
    timed("silt", "spark read settled", lambda number: _read(spark, data, number))
    timed("silt", "spark readStream", lambda number: _stream(spark, data, number, folder / f"checkpoint-{number}"))


def _write(spark: SparkSession, url: str, number: int) -> None:
    rows = spark.range(number).selectExpr(
        f"concat('bench.', id % {SUBJECTS}) AS subject", f"repeat('x', {SIZE}) AS data"
    )
    rows.write.format("silt").mode("append").option("servers", url).save()


def _read(spark: SparkSession, data: Path, number: int) -> None:
    reader = spark.read.format("silt").options(stream=STREAM, startingSequence=FEW_ROWS + 1)
    reader.option("endingSequence", FEW_ROWS + number).load(str(data)).write.format("noop").mode("overwrite").save()


def _stream(spark: SparkSession, data: Path, number: int, checkpoint: Path) -> None:
    reader = spark.readStream.format("silt").options(stream=STREAM, startingSequence=FEW_ROWS + 1)
    frame = reader.option("maxMessagesPerTrigger", number).load(str(data))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
