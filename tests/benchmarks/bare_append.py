"""What the settle job is measured against: Spark reads the journal as a stream and appends it to a table, no more.

The session is the settle job's own, so both pay the same for starting up.
"""

import sys
from pathlib import Path

from delta_store.settling.spark_session import open_session


def main(journal: Path, target: Path) -> None:
    """Append every row of ``journal`` to a new table at ``target``."""
    spark = open_session("bare append")
    rows = spark.readStream.format("delta").load(str(journal))
    writer = rows.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(target / "_checkpoint")).start(str(target / "table")).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
