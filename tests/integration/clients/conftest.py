"""What the clients' tests share: the CLI, and a nats-server and a Silt side by side."""

from collections.abc import Iterator

import pytest

from tests.servers import side_by_side
from tests.tools import Missing, nats_cli


@pytest.fixture(scope="module")
def cli() -> str:
    """Path of the nats CLI."""
    try:
        return str(nats_cli())
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URLs of nats-server and Silt."""
    with side_by_side(tmp_path_factory.mktemp("clients")) as urls:
        yield urls
