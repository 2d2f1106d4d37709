"""The Spark session that all of Silt's Spark code runs in; nothing else creates one.

A running session is used as it is (a notebook, a cluster's driver); it must have Delta's extensions.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from conf.data_location import DataLocation
from delta_store.settling.class_archive import archive_options
from delta_store.settling.spark_store import fetched_store_jars, share_keys, store_coordinates, store_settings

SCALA = "2.13"
ARTIFACT_FOLDERS = (".ivy2.5.2/jars", ".ivy2/jars")
"""Where Spark's package resolver keeps fetched jars, below the home folder."""
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000"
    " -XX:Tier4CompileThreshold=100000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Only code that runs ten times as often as by default is optimised in full.

Measured: by default 40 CPU seconds of compiling in the first 30 batches, with this 20, and a small batch takes 0.9 CPU
seconds instead of 1.3. Without full optimisation it takes 0.85, but one of 300,000 rows takes three more seconds.
"""
REMOTE_VARIABLE = "SPARK_REMOTE"
HOSTED_VARIABLE = "DATABRICKS_RUNTIME_VERSION"

SMALL_MACHINE = {
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.cleaner.periodicGC.interval": "5min",
}
"""Settings for a job that runs many small batches on two cores; each may be overridden by ``settings``."""

_STATIC = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")

ALWAYS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": CATALOG,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
"""Settings that correctness needs: UTC, streams that differ only by case, tables without deletion vectors.

Hadoop's default local file system keeps a checksum file beside each file, which nobody fsyncs: after a power cut an
empty one makes every read fail. With dynamic partition pruning, Spark 4.1 fails on joins over a union of two Delta
tables ("dynamicpruning … has not finished").
"""


SESSION = {name: value for name, value in ALWAYS.items() if name.startswith("spark.sql.") and name not in _STATIC}
"""Those of them that a session of a running server takes; the others are its administrator's affair."""


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: batches then run in a process of the server's."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def whereabouts(spark: SparkSession) -> str:
    """Return the master, or "remote" for a server that does not say its own."""
    try:
        return spark.conf.get("spark.master") or "remote"
    except Exception:  # noqa: BLE001  # serverless compute refuses settings by an error of its own
        return "remote"


def delta_coordinates() -> str:
    """Return the Maven coordinates of the Delta jar for the installed pyspark and delta-spark."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def fetched_jars(home: Path) -> list[Path]:
    """Return Delta's jars that Spark's resolver has fetched before; empty when one is missing."""
    delta = version("delta-spark")
    spark_jar = delta_coordinates().split(":")[1]
    for folder in (home / name for name in ARTIFACT_FOLDERS):
        needed = [folder / f"io.delta_{spark_jar}-{delta}.jar", folder / f"io.delta_delta-storage-{delta}.jar"]
        if all(jar.is_file() for jar in needed):
            extra = [*folder.glob(f"io.delta_delta-kernel*-{delta}.jar"), *folder.glob("io.unitycatalog_*.jar")]
            return needed + sorted(extra)
    return []


def _carried_by_spark() -> bool:
    home = os.environ.get("SPARK_HOME")
    return home is not None and any(Path(home, "jars").glob("delta-spark_*.jar"))


def fetched_for(data: DataLocation | None, home: Path) -> list[Path]:
    """Return the jars that a location needs beside Delta's; empty when one is missing, or none is needed."""
    if data is None or data.is_local:
        return []
    return next(filter(None, (fetched_store_jars(home / name) for name in ARTIFACT_FOLDERS)), [])


def _jar_settings(home: Path, data: DataLocation | None, master: str) -> dict[str, str]:
    of_delta, of_store = fetched_jars(home), fetched_for(data, home)
    missing = [] if of_delta else [delta_coordinates()]
    if data is not None and not data.is_local and not of_store:
        missing.append(store_coordinates())
    settings = {"spark.jars.packages": ",".join(missing)} if missing else {}
    if of_store and master.startswith("local"):  # where Spark would copy them, half a gigabyte, at each start
        settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, of_store))
        of_store = []
    if jars := of_delta + of_store:
        settings["spark.jars"] = ",".join(map(str, jars))
    return settings


def _share_python() -> None:
    """Let Python workers import what this process can: they inherit the environment, not ``sys.path``."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def open_session(
    name: str,
    *,
    data: DataLocation | None = None,
    master: str | None = None,
    remote: str | None = None,
    default_master: str = "local[*]",
    **settings: Any,
) -> SparkSession:
    """Return the running session, or start one that reads ``data``.

    ``remote`` is the URL of a Spark Connect server, by default that of ``SPARK_REMOTE``. ``master`` wins over that
    variable and over spark-submit's, ``default_master`` over neither; on Databricks no master counts. ``settings`` are
    Spark's own, with ``__`` for the dots in their names (``spark__sql__shuffle__partitions=8``). Raises what Spark
    raises when it can't start, and ``ValueError`` for a store that Spark can't read.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if master is not None and remote is None:
        os.environ.pop(REMOTE_VARIABLE, None)
    remote = remote or os.environ.get(REMOTE_VARIABLE)
    if remote or HOSTED_VARIABLE in os.environ:
        return _session_of_others(name, remote)
    _share_python()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    if master is not None or not submitted:
        builder = builder.master(master or default_master)
    own = {key.replace("__", "."): str(value) for key, value in settings.items()}
    defaults = dict(SMALL_MACHINE)
    if not submitted:
        defaults["spark.driver.extraJavaOptions"] += archive_options()
    if not submitted and not _carried_by_spark():
        defaults |= _jar_settings(Path.home(), data, master or default_master)
    if data is not None:
        defaults |= store_settings(data)
        share_keys(data)
    executors = {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    for key, value in (defaults | executors | ALWAYS | own).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _session_of_others(name: str, remote: str | None) -> SparkSession:
    """Return a session of a server that runs already, or of the Databricks cluster that runs this process."""
    builder = SparkSession.builder.appName(name)
    if remote:
        builder = builder.remote(remote)
    for key, value in SESSION.items():  # Spark Connect warns of what a server refuses
        builder = builder.config(key, value)
    return builder.getOrCreate()
