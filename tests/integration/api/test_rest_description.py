"""The HTTP API against its own description: requests made at random by schemathesis, one by one and in sequences."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import APIOperation, BaseSchema

from tests.servers import Child, gateway, http_open, nats_server, wait_until
from tests.tables import History, Tables

READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)
# That two points exclude each other can't be said in a schema, nor what a stream takes, or expects before a message.
EXPECTED = ["2xx", "400", "404", "406", "409", "410", "412", "413"]
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": EXPECTED}}}
TAIL_SECONDS = 0.02
NEVER_UNFIT = "/v1/streams/{name}/history"
"""Its only parameter is a stream's name, which may be any text."""


def bounded(examples: int, steps: int = 1) -> settings:
    """The same few requests each time."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSchema]:
    """A real HTTP process over two streams, with a gateway that takes messages, by what it says about itself."""
    folder = tmp_path_factory.mktemp("rest")
    (folder / "data").mkdir()
    tables = Tables(folder / "data")
    for name in ("A", "B"):
        history = History(stream=name, per_subject=2)
        tables.commit(
            [
                history.create(subjects=(f"{name}.>",)),
                *(history.publish(f"{name}.{number % 5}") for number in range(40)),
            ]
        )
        tables.settle()
    with nats_server(folder / "hub", leaf=True) as hub, gateway(hub, folder / "data"):
        command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(folder / "data"), "--http-port", "0"]
        (folder / "context.json").write_text(json.dumps({"url": hub.url}))
        context = {"SILT_HTTP__PUBLISH_CONTEXT_FILE": str(folder / "context.json")}
        child = Child([*command, "--http-only"], folder / "serve.log", context)
        child.start()
        try:
            url = json.loads(child.wait_log(READY)[1])["url"]
            wait_until(lambda: http_open(url), what="the store is open")
            yield schemathesis.openapi.from_url(f"{url}/openapi.json", config=SchemathesisConfig.from_dict(CONFIG))
        finally:
            child.stop()


def bound(case: schemathesis.Case) -> None:
    """Make a tail, which may last for a day, a short one."""
    if case.operation.path.endswith("/tail") and "seconds" not in (case.query or {}):
        case.query = {**(case.query or {}), "seconds": TAIL_SECONDS}
    elif case.operation.path.endswith("/tail") and isinstance((case.query or {})["seconds"], int | float):
        case.query["seconds"] = min(case.query["seconds"], TAIL_SECONDS)


def ask(operation: APIOperation[Any, Any, Any, Any], mode: schemathesis.GenerationMode) -> int:
    """Make some requests; how many there were."""
    asked = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @bounded(8)
    def one(case: schemathesis.Case) -> None:
        nonlocal asked
        asked += 1
        bound(case)
        case.call_and_validate(timeout=30)

    one()
    return asked


def test_single_requests_get_what_is_described(api: BaseSchema) -> None:
    """Fitting and unfitting ones alike: statuses, media types, headers and bodies are those of the description."""
    operations = [result.ok() for result in api.get_all_operations()]
    asked = sum(ask(operation, schemathesis.GenerationMode.POSITIVE) for operation in operations)
    may_not_fit = [one for one in operations if list(one.iter_parameters()) and one.path != NEVER_UNFIT]
    asked += sum(ask(operation, schemathesis.GenerationMode.NEGATIVE) for operation in may_not_fit)
    assert (len(operations), asked > 200) == (35, True)


def test_requests_that_follow_from_answers_get_what_is_described(api: BaseSchema) -> None:
    """Streams that were listed are asked for, and their messages."""

    class Sequences(api.as_state_machine()):  # type: ignore[misc]  # made from the description
        """Sequences whose tails end."""

        def before_call(self, case: schemathesis.Case) -> None:
            """Bound it."""
            bound(case)

    Sequences.run(settings=bounded(10, steps=5))
