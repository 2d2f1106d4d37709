"""The servers that the client is tested against, each in a process of its own that a test may restart."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from consumers.client import JetStreamContext
from tests.hubs import free_port
from tests.servers import Child, answers_api, nats_server_binary, silt_server, wait_until

TEST_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A running server; ``restart`` breaks every connection and comes back on the same port with what was stored."""

    url: str
    restart: Callable[[], None]
    stop: Callable[[], None]
    start: Callable[[], None]


@contextmanager
def plain_nats_server(folder: Path) -> Iterator[Server]:
    """nats-server with its own JetStream."""
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    config = folder / "nats.conf"
    config.write_text(f"listen: 127.0.0.1:{port}\njetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'))} }}\n")
    child = Child([str(nats_server_binary()), "-c", str(config)], folder / "nats-server.log")

    def start() -> None:
        child.start()
        child.wait_log(re.compile(r"Server is ready"))
        wait_until(lambda: answers_api(url), what="JetStream answers")

    def stop() -> None:
        child.kill()

    def restart() -> None:
        stop()
        start()

    start()
    try:
        yield Server(url, restart, stop, start)
    finally:
        child.stop()


@contextmanager
def silt(folder: Path) -> Iterator[Server]:
    """Silt's gateway and the nats-server that clients connect to; both end and start together, on the same ports."""
    with silt_server(folder) as gateway:
        hub = gateway.hub
        assert hub.leaf_url is not None
        _fix_ports(folder / "hub" / "nats.conf", hub.url, hub.leaf_url)

        def start() -> None:
            hub.child.start()
            gateway.start()

        def stop() -> None:
            gateway.child.kill()
            hub.child.kill()

        def restart() -> None:
            stop()
            start()

        yield Server(hub.url, restart, stop, start)


def _fix_ports(config: Path, url: str, leaf_url: str) -> None:
    """Let a hub that listens on ports of the kernel's choice take the same ones when it starts again."""
    port, leaf_port = (address.rsplit(":", 1)[1] for address in (url, leaf_url))
    client_line, rest = config.read_text().split("\n", 1)
    client_line = client_line.replace(":-1", f":{port}")
    config.write_text("\n".join([client_line, rest.replace("127.0.0.1:-1", f"127.0.0.1:{leaf_port}")]))


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "nats-server": plain_nats_server,
    "silt": silt,
}


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each of the servers in turn."""
    name: str = request.param
    with SERVERS[name](tmp_path_factory.mktemp(name)) as running:
        yield running


@pytest.fixture
def server_url(server: Server) -> str:
    """Where the server listens."""
    return server.url


Test = Callable[[JetStreamContext, Client], Coroutine[Any, Any, None]]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A connection that comes back within milliseconds."""

    async def quiet(_: Exception) -> None:
        pass

    client = await nats.connect(url, reconnect_time_wait=0.02, max_reconnect_attempts=-1, error_cb=quiet)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def run(server_url: str) -> Callable[[Test], None]:
    """Run a test's coroutine with a context and its connection; all streams are deleted before."""

    def start(test: Test) -> None:
        async def main() -> None:
            async with asyncio.timeout(TEST_SECONDS), connected(server_url) as client:
                js = JetStreamContext(client)
                for name in [name async for name in js.stream_names()]:
                    await js.delete_stream(name)
                await test(js, client)

        asyncio.run(main())

    return start
