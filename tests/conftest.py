"""What every test gets: an environment without settings of the machine it runs on, and no deadline."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine's other work, nothing about the code.
settings.register_profile("silt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("silt")

FOREIGN = ("SILT_", "NATS_", "JAVA_TOOL_OPTIONS")


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away variables that would change what a test sees."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
