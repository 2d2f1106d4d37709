"""The format ``silt`` over tables in an object store, which its tasks read by the store's settings alone, no Hadoop."""

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from api.spark import register
from conf.data_location import DataLocation
from tests.pasts import grown
from tests.s3 import BUCKET, s3_server, storage_options, store_variables


@pytest.mark.slow
def test_batches_and_streams_of_a_bucket(spark: SparkSession, tmp_path: Path) -> None:
    """A batch is the true past at a point and now; a query that is started twice hands each message over once."""
    register(spark)
    with s3_server() as server:
        store = DataLocation(f"s3://{BUCKET}/spark", storage_options(server.url))
        pasts = grown(tmp_path, random.Random(2), rounds=4, store=store)
        settings = {
            f"storage.{name.removeprefix('SILT_STORAGE__').lower()}": value
            for name, value in store_variables(server.url).items()
        }
        reader = spark.read.format("silt").options(stream="S", **settings)
        for point in (pasts.history.seq // 2, pasts.history.seq - 1):
            rows = reader.option("asOf", point).load(store.uri).select("seq", "data").collect()
            assert sorted(row["seq"] for row in rows) == pasts.at(point)
            assert all(bytes(row["data"]) == f"S/{row['seq']}".encode() for row in rows)
        got: list[int] = []

        def take(batch: DataFrame, _number: int) -> None:
            got.extend(row["seq"] for row in batch.select("seq").collect())

        def read_on() -> None:
            source = spark.readStream.format("silt").options(stream="S", live="true", **settings).load(store.uri)
            writer = source.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(120)

        read_on()
        before = pasts.at(pasts.history.seq)
        assert sorted(got) == before
        pasts.tables.commit([pasts.history.publish("s.1"), pasts.history.publish("s.2")])
        read_on()
        assert sorted(got) == [*before, pasts.history.seq - 1, pasts.history.seq]
