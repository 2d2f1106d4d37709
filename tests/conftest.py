"""What every test gets: an environment without settings of the machine it runs on, and no deadline."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine's other work, nothing about the code.
settings.register_profile("silt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("silt")

FOREIGN = ("SILT_", "NATS_", "JAVA_TOOL_OPTIONS")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often, and by which dice, the power is cut."""
    parser.addoption("--power-cuts", type=int, default=20, help="power cuts of silt up (with -m power_loss)")
    parser.addoption("--power-seed", type=int, default=0, help="their seed; 0 takes one at random")


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away variables that would change what a test sees."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
