"""A job that copies stream ``S`` of a store to stream ``COPY`` of a server by the format ``silt``: source and sink.

Run as a process of its own, which a test may kill; prints a line when the query runs and one when all is copied.
"""

import argparse
import re
import sys
import time

from pyspark.sql.streaming import StreamingQuery

from api.spark import register
from delta_store.settling.spark_session import open_session


def main() -> None:
    """Copy until ``--until`` messages of the source are copied."""
    parser = argparse.ArgumentParser()
    for name in ("data", "servers", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--until", type=int, required=True)
    parser.add_argument("--most", default="20000")
    parser.add_argument("--master")
    parser.add_argument("--remote")
    asked = parser.parse_args()
    spark = open_session("copy", master=asked.master, remote=asked.remote, default_master="local[2]")
    register(spark)
    source = spark.readStream.format("silt").options(stream="S", maxMessagesPerTrigger=asked.most).load(asked.data)
    copied = source.selectExpr("concat('copy.', seq % 7) AS subject", "data")
    writer = copied.writeStream.format("silt").options(servers=asked.servers, stream="COPY")
    query = writer.option("checkpointLocation", asked.checkpoint).queryName("copy").start()
    _say("running")
    while _reached(query) < asked.until:
        assert query.isActive, query.exception()
        time.sleep(0.1)
    query.stop()
    _say("copied")


def _reached(query: StreamingQuery) -> int:
    """The last sequence of the newest batch that is done."""
    progress = query.lastProgress
    end = progress["sources"][0]["endOffset"] if progress else None
    found = re.search(r"seq\W+(\d+)", str(end))
    return int(found[1]) if found else 0


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
