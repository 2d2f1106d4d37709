"""nats.js, unmodified, sees in Silt what it sees in nats-server: manager, Direct Get, consumers, buckets, objects."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.comparable import at_once, pretty, run
from tests.tools import Missing, node_modules

MANAGER = "jetstream_manager.mjs"
SCRIPTS = ("jetstream_consumers.mjs", "jetstream_buckets.mjs", "jetstream_fast.mjs")


@pytest.fixture(scope="module")
def folder() -> Path:
    """Where Node finds nats.js: the scripts are copied beside it."""
    try:
        found = node_modules()
    except Missing as missing:
        pytest.skip(str(missing))
    for name in (MANAGER, *SCRIPTS, "outcomes.mjs"):
        shutil.copy(Path(__file__).with_name(name), found / name)
    return found


def _outcomes(script: Path, url: str) -> list[dict[str, Any]]:
    status, text = run(["node", str(script), url], cwd=script.parent)
    assert status == 0, text
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", SCRIPTS)
def test_same_outcomes(folder: Path, pair: tuple[str, str], name: str) -> None:
    """Each call of the script gives the same value or the same error."""
    _compare(folder / name, pair)


def test_same_outcomes_of_managing(folder: Path, new_pair: tuple[str, str]) -> None:
    """The same for streams and the account, whose counts begin with the servers."""
    _compare(folder / MANAGER, new_pair)


def _compare(script: Path, pair: tuple[str, str]) -> None:
    expected, actual = at_once(partial(_outcomes, script), pair)
    assert [item["name"] for item in actual] == [item["name"] for item in expected]
    for one, other in zip(expected, actual, strict=True):
        assert pretty(other["outcome"]) == pretty(one["outcome"]), one["name"]
