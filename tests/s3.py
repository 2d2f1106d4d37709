"""An S3 server (moto) for tests, empty at its start, that takes one request at a time."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "silt"
ACCESS_KEY, SECRET_KEY = "test", "test"
REGION = "us-east-1"


class S3Server(NamedTuple):
    """Where a running server is reached."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with one bucket, :data:`BUCKET`, until the block ends."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _one_at_a_time(server._server.app)
    running = S3Server(*server.get_host_and_port())
    try:
        # All servers of one process share what they store.
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
    """What a reader or writer of the bucket has to be told, for the server or for what stands before it."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
    }


def _one_at_a_time(app: Any) -> Any:
    """The application without threads inside it: it looks and then puts, so on a busy machine two racers would win."""
    lock = Lock()

    def locked(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return locked
