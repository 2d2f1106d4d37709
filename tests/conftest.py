"""What every test gets: an environment without settings of the machine it runs on, and no deadline."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

# How long an example takes says something about the machine's other work, nothing about the code.
settings.register_profile("silt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("silt")

FOREIGN = ("SILT_", "NATS_", "JAVA_TOOL_OPTIONS")

HERE = Path(__file__).parent
FIRST = ("spark", "faults", "integration", "sim")
"""What workers begin with: the longest pieces, so that they end together."""


class _Pieces(LoadScopeScheduling):
    """Gives workers whole modules, which share servers, and to one of them all that shares the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "tests/spark" if module.startswith("tests/spark/") else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How ``pytest -n`` deals tests out."""
    return _Pieces(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``pytest -n`` the longest come first."""
    if hasattr(config, "workerinput"):
        places = {HERE / name: place for place, name in enumerate(FIRST)}
        items.sort(key=lambda item: min(places.get(folder, len(FIRST)) for folder in item.path.parents))


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often, and by which dice, the power is cut."""
    parser.addoption("--power-cuts", type=int, default=20, help="power cuts of silt up (with -m power_loss)")
    parser.addoption("--power-seed", type=int, default=0, help="their seed; 0 takes one at random")


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away variables that would change what a test sees."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
