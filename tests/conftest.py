"""Settings of every test: an environment without the machine's own settings, no deadline, the order under xdist."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

# The time of an example depends on the machine's other work.
settings.register_profile("silt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("silt")

FOREIGN = ("SILT_", "NATS_", "JAVA_TOOL_OPTIONS")

HERE = Path(__file__).parent
FIRST = ("spark", "faults", "integration", "sim")
"""The folders that workers begin with: those of the longest modules, so that all workers end together."""


class _Pieces(LoadScopeScheduling):
    """A scheduler of whole modules, whose tests share servers; all of ``tests/spark`` goes to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "tests/spark" if module.startswith("tests/spark/") else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Return the scheduler of ``pytest -n``."""
    return _Pieces(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the longest modules to the front under ``pytest -n``."""
    if hasattr(config, "workerinput"):
        places = {HERE / name: place for place, name in enumerate(FIRST)}
        items.sort(key=lambda item: min(places.get(folder, len(FIRST)) for folder in item.path.parents))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number and the seed of power cuts."""
    parser.addoption("--power-cuts", type=int, default=20, help="power cuts of silt up (with -m power_loss)")
    parser.addoption("--power-seed", type=int, default=0, help="their seed; 0 takes one at random")


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove environment variables that would change a test's settings."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
