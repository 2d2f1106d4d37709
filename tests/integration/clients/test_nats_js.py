"""nats.js's JetStream manager and Direct Get, unmodified, see in Silt what they see in nats-server."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.comparable import pretty, run
from tests.servers import side_by_side
from tests.tools import Missing, node_modules

SCRIPT = Path(__file__).with_name("jetstream_manager.mjs")


@pytest.fixture(scope="module")
def script() -> Path:
    """The script, where Node finds nats.js beside it."""
    try:
        folder = node_modules()
    except Missing as missing:
        pytest.skip(str(missing))
    return Path(shutil.copy(SCRIPT, folder / SCRIPT.name))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URLs of nats-server and Silt."""
    with side_by_side(tmp_path_factory.mktemp("nats-js")) as urls:
        yield urls


def _outcomes(script: Path, url: str) -> list[dict[str, Any]]:
    status, text = run(["node", str(script), url], cwd=script.parent)
    assert status == 0, text
    return [json.loads(line) for line in text.splitlines()]


def test_stream_manager(script: Path, pair: tuple[str, str]) -> None:
    """Each call gives the same value or the same error."""
    expected, actual = (_outcomes(script, url) for url in pair)
    assert [item["name"] for item in actual] == [item["name"] for item in expected]
    for one, other in zip(expected, actual, strict=True):
        assert pretty(other["outcome"]) == pretty(one["outcome"]), one["name"]
