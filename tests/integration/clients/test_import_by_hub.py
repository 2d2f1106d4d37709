"""``silt import --as-mirror``: where Silt's hub reaches the origin, its gateway follows by itself."""

import json
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from typer.testing import CliRunner

from api.cli.verbs import command_line
from tests.domains import Domains, api, reaches, two_domains, use


def command(folder: Path, *arguments: str) -> tuple[int, str]:
    """Status and output of a command, which finds Silt by a context."""
    env = {"XDG_CONFIG_HOME": str(folder)}
    ran = CliRunner().invoke(command_line(arguments[0]), [*arguments, "--context", "silt", "-o", "ndjson"], env=env)
    return ran.exit_code, ran.output


def silt(folder: Path, *arguments: str) -> dict[str, Any]:
    """What a command that succeeds prints."""
    status, text = command(folder, *arguments)
    assert status == 0, text
    return dict(json.loads(next(line for line in text.splitlines() if line.startswith("{"))))


async def publish(connection: Client, count: int) -> list[dict[str, Any]]:
    """Publish to whoever has the subject; return the acknowledgements."""
    return [json.loads((await connection.request("orders.new", b"x", timeout=10)).data) for _ in range(count)]


def test_a_domain_of_the_same_hub_is_followed_and_cut_over(tmp_path: Path) -> None:
    """No process stays beside the gateway; a cutover that is refused is undone; after one clients publish to Silt."""
    with two_domains(tmp_path / "domains") as both:
        _script(both, tmp_path)


def _script(both: Domains, folder: Path) -> None:
    async def make(connection: Client) -> None:
        await api(connection, "hub", "STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        config = {"durable_name": "c", "ack_policy": "explicit"}
        await api(connection, "hub", "CONSUMER.CREATE.ORDERS.c", {"stream_name": "ORDERS", "config": config})
        await publish(connection, 50)

    async def more(connection: Client) -> None:
        acks = await publish(connection, 5)
        assert {one["domain"] for one in acks} == {"hub"}
        await reaches(connection, "silt", "ORDERS", 55)

    async def clash(connection: Client) -> None:
        await api(connection, "silt", "STREAM.CREATE.CLASH", {"name": "CLASH", "subjects": ["orders.old"]})

    async def undone(connection: Client) -> None:
        origin = await api(connection, "hub", "STREAM.INFO.ORDERS")
        assert origin["config"]["subjects"] == ["orders.>"]
        consumer = await api(connection, "hub", "CONSUMER.INFO.ORDERS.c")
        assert not consumer.get("paused")
        mirror = await api(connection, "silt", "STREAM.INFO.ORDERS")
        assert mirror["config"]["mirror"]["name"] == "ORDERS"
        assert "silt.cutover" not in mirror["config"]["metadata"]
        await api(connection, "silt", "STREAM.DELETE.CLASH")

    async def after(connection: Client) -> None:
        assert [(one["domain"], one["seq"]) for one in await publish(connection, 2)] == [("silt", 56), ("silt", 57)]
        told = await api(connection, "silt", "CONSUMER.INFO.ORDERS.c")
        assert told["num_pending"] == 57

    context = folder / "nats" / "context"
    context.mkdir(parents=True)
    (context / "silt.json").write_text(json.dumps({"url": both.hub.url, "jetstream_domain": "silt"}))
    use(both.hub, make)
    told = silt(folder, "import", "--from", both.hub.url, "--domain", "hub", "--as-mirror", "ORDERS")
    assert (told["outcome"], told["messages"], told["consumers"]) == ("imported", 50, 1)
    use(both.hub, more)
    use(both.hub, clash)
    status, text = command(folder, "cutover", "ORDERS")
    assert (status, "the origin goes on as before" in text) == (1, True), text
    use(both.hub, undone)
    told = silt(folder, "cutover", "ORDERS")
    assert (told["messages"], told["consumers"]) == (55, 1)
    use(both.hub, after)
