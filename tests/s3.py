"""An S3 server (moto) for tests, empty at its start, that serves one request at a time."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "silt"
ACCESS_KEY, SECRET_KEY = "silt-tests", "not-to-be-shown"
REGION = "us-east-1"


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
        client = boto3.client(
            "s3",
            endpoint_url=running.url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        client.create_bucket(Bucket=BUCKET)
        yield running
    finally:
        server.stop()


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
