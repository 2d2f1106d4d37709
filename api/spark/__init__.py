"""Spark reads and writes streams by the format ``silt``; needs pyspark. Tasks need this package, and no state of ours.

from api.spark import register

register(spark)
spark.readStream.format("silt").option("stream", "ORDERS").load("/srv/data")
"""

from api.spark.data_source import FORMAT, SiltDataSource, register

__all__ = ["FORMAT", "SiltDataSource", "register"]
