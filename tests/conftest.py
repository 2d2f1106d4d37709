"""What every test gets: an environment without settings of the machine it runs on."""

import os

import pytest

FOREIGN = ("SILT_", "NATS_", "JAVA_TOOL_OPTIONS")


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away variables that would change what a test sees."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
