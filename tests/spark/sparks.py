"""Sparks that a test starts beside its own session: a Spark Connect server, a standalone master with a worker."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from delta_store.settling.spark_session import ALWAYS, fetched_jars
from tests.hubs import free_port

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOOPBACK = "127.0.0.1"
STARTED_WITHIN_SECONDS = 240


def environment() -> dict[str, str]:
    """What a user's shell has, without what this test process added for its own workers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    return kept | own


def delta_jars() -> str:
    """Delta's jars, as ``--jars`` takes them."""
    return ",".join(map(str, fetched_jars(Path.home())))


@contextmanager
def running(command: Sequence[str | Path], folder: Path, *, port: int, **env: str) -> Iterator[None]:
    """Run a server until the block ends; it answers on its port before the block begins."""
    folder.mkdir(parents=True, exist_ok=True)
    said = folder / f"said-{port}.log"
    with said.open("wb") as out:
        server = subprocess.Popen(command, cwd=folder, env=environment() | env, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + STARTED_WITHIN_SECONDS
        while not _answers(port):
            assert server.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < deadline, said.read_text()[-3000:]
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with Delta, whose Python finds Silt; yields its URL."""
    port = free_port()
    confs = {"spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false", "spark.log.level": "WARN"}
    confs |= {"spark.driver.extraJavaOptions": QUICK_JAVA}
    confs |= {"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder / "local")} | ALWAYS
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--jars", delta_jars()]
    command += [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with running(command, folder, port=port, PYTHONPATH=str(ROOT)):
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A standalone master with one worker; yields the master's URL."""
    port, worker_port = free_port(), free_port()
    launch = SPARK_HOME / "bin" / "spark-class"
    url = f"spark://{LOOPBACK}:{port}"
    master = [launch, "org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port)]
    worker = [launch, "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--port", str(worker_port)]
    worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), url]
    with (
        running([*master, "--webui-port", "0"], folder, port=port),
        running([*worker[:2], "--webui-port", "0", *worker[2:]], folder, port=worker_port),
    ):
        yield url


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex((LOOPBACK, port)) == 0
