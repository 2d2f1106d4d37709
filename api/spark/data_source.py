"""The format ``silt``: what Spark makes of the options, in the driver's Python; and its registration."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from api.spark.columns import names_in, schema_of
from api.spark.read_options import read_options
from api.spark.reading import PLANNED_BY_SCAN, PruningReader, SiltBatchReader, SiltStreamReader
from api.spark.sink import SiltBatchWriter, SiltStreamWriter
from api.spark.sink_columns import sink_columns
from api.spark.write_options import write_options
from conf.clock import SystemClock

FORMAT: Final = "silt"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the format known to a session, classic or of Spark Connect; where executors run, Silt is installed too."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(SiltDataSource)


class SiltDataSource(DataSource):
    """Streams as rows: reads from the tables, writes through NATS."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a read that names none."""
        return schema_of(headers=self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises ``OptionError``."""
        options = read_options(self.options, streaming=False, now_ns=SystemClock().now_ns())
        pushing = PLANNED_BY_SCAN if options.pushdown is None else options.pushdown
        return (PruningReader if pushing else SiltBatchReader)(options, names_in(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of a streaming query. Raises ``OptionError``."""
        options = read_options(self.options, streaming=True, now_ns=SystemClock().now_ns())
        return SiltStreamReader(options, names_in(schema))

    def writer(self, schema: StructType, overwrite: bool) -> SiltBatchWriter:  # noqa: FBT001  # Spark's signature
        """Return the writer of a batch. Raises ``OptionError``."""
        options = write_options(self.options, overwrite=overwrite)
        return SiltBatchWriter(options, sink_columns(schema, options.subject))

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001  # Spark's signature
    ) -> SiltStreamWriter:
        """Return the writer of a streaming query. Raises ``OptionError``."""
        options = write_options(self.options, overwrite=overwrite)
        return SiltStreamWriter(options, sink_columns(schema, options.subject))
