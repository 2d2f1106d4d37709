"""Spark's access to an object store: the settings of ``[storage]`` as Hadoop's S3A takes them, and its jars.

Spark only reads there; what it writes goes through :mod:`delta_store.storage`. Keys reach the JVM by its environment:
Spark's own settings stand in the arguments of the JVM's process.
"""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark import __file__ as pyspark_file

from conf.data_location import DataLocation

_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_JARS: Final = ("hadoop-aws", "bundle", "analyticsaccelerator-s3", "wildfly-openssl")
_CLIENT: Final = re.compile(r"hadoop-client-api-([\d.]+)\.jar")


def store_settings(data: DataLocation) -> dict[str, str]:
    """Return Spark's settings for a location; empty for a folder.

    Raises ``ValueError`` for a store that Spark has no file system for by itself.
    """
    if data.is_local:
        return {}
    if not data.uri.startswith("s3://"):
        raise ValueError(f"{data}: Spark reads folders and s3:// only; a file system for it must come with Spark")
    endpoint = data.options.get("AWS_ENDPOINT_URL", "")
    path_style = data.options.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") == "false"
    chosen = {
        "impl": _S3A,
        "endpoint": endpoint,
        "endpoint.region": data.options.get("AWS_REGION", ""),
        "path.style.access": str(path_style).lower(),
        "connection.ssl.enabled": str(urlsplit(endpoint).scheme != "http").lower(),
        "connection.establish.timeout": data.options.get("connect_timeout", ""),
        "connection.timeout": data.options.get("timeout", ""),
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in chosen.items() if value}
    return settings | {"spark.hadoop.fs.s3.impl": _S3A}


def share_keys(data: DataLocation) -> None:
    """Put the store's keys, where the settings have them, into the environment that the JVM inherits."""
    if keys := {name: data.options[name] for name in _KEYS if name in data.options}:
        for name in _KEYS:
            os.environ.pop(name, None)
        os.environ.update(keys)


def hadoop_version() -> str:
    """Return the version of the Hadoop client that the installed Spark carries."""
    jars = Path(pyspark_file).parent / "jars"
    return next(found[1] for jar in sorted(jars.iterdir()) if (found := _CLIENT.fullmatch(jar.name)))


def store_coordinates() -> str:
    """Return the Maven coordinates of S3A for the installed Spark; the rest comes with it."""
    return f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"


def fetched_store_jars(folder: Path) -> list[Path]:
    """Return S3A's jars among those that Spark's resolver keeps in ``folder``; empty when one is missing."""
    jars = [sorted(folder.glob(f"*_{name}-[0-9]*.jar")) for name in _JARS]
    of_spark = [jar for jar in jars[0] if jar.name.endswith(f"-{hadoop_version()}.jar")]
    return [*of_spark, *(found[-1] for found in jars[1:])] if of_spark and all(jars) else []
