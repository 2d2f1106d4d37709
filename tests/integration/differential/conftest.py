"""What the differential tests share: the lanes, and one run of every scenario that is asked for."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.integration.differential.lanes import Lanes, Transcripts
from tests.integration.differential.side import SCENARIOS


@pytest.fixture(scope="session")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lanes]:
    """Pairs of servers, for the session."""
    with Lanes(tmp_path_factory.mktemp("lanes")) as running:
        yield running


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest, lanes: Lanes) -> dict[tuple[str, str], "Future[Transcripts]"]:
    """By name and link the scenarios of all tests that will be run: they are played while the first one waits."""
    chosen = [
        (item.callspec.params["name"], item.callspec.params["over"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "played" in item.fixturenames
    ]
    return {(name, over): lanes.play(name, SCENARIOS[name], over=over, later=True) for name, over in chosen}
