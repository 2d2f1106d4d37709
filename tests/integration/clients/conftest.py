"""What the clients' tests share: the CLI, and a nats-server and a Silt side by side."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import side_by_side, wait_until
from tests.tools import Missing, nats_cli
from tests.wire import Wire, delete_streams


@pytest.fixture(scope="module")
def cli() -> str:
    """Path of the nats CLI."""
    try:
        return str(nats_cli())
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """URLs of nats-server and Silt, and where nats-server keeps its streams."""
    folder = tmp_path_factory.mktemp("clients")
    with side_by_side(folder) as urls:
        yield *urls, folder / "reference" / "jetstream" / "jetstream" / "$G" / "streams"


@pytest.fixture
def new_pair(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URLs of a nats-server and a Silt of a test's own: what they have counted is the same."""
    with side_by_side(tmp_path / "pair") as urls:
        yield urls


@pytest.fixture
def pair(servers: tuple[str, str, Path]) -> Iterator[tuple[str, str]]:
    """URLs of nats-server and Silt; both are without streams, and left so."""
    *urls, kept = servers

    async def clear(url: str) -> None:
        async with Wire.open(url) as wire:
            await delete_streams(wire)

    yield urls[0], urls[1]
    for url in urls:
        asyncio.run(clear(url))
    wait_until(lambda: _is_empty(kept), what="nats-server has cleared away its streams")


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except FileNotFoundError:
        return True
