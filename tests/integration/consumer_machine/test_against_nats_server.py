"""The consumer state machine against a real nats-server: the same steps, the same effects and the same info."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.consumer_machine.both_sides import differences
from tests.integration.consumer_machine.consumer_scenarios import SCENARIOS
from tests.servers import NatsServer, nats_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One nats-server with JetStream for all scenarios."""
    folder: Path = tmp_path_factory.mktemp("nats")
    with nats_server(folder, jetstream=True) as running:
        yield running


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_consumer_does_what_nats_server_does(server: NatsServer, name: str) -> None:
    """Deliveries, statuses, answers, advisories and info agree after each step."""
    scenario = SCENARIOS[name]
    config = dict(scenario.config)
    retention = config.pop("retention", "limits")
    assert asyncio.run(differences(server.url, scenario.steps, retention=retention, **config)) == []
