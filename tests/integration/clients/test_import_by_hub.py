"""``silt import --as-mirror``: where Silt's hub reaches the origin, its gateway follows by itself."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from typer.testing import CliRunner

from api.cli.verbs import command_line
from api.moving.cutover import Cutover
from api.moving.origin import Origin
from api.moving.stream_comparison import Advance, StreamComparison
from consumers.client.api_call import Api
from delta_store.archive.archived import ArchivedConsumer
from delta_store.archive.bad_archive import BadArchive
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


def prepare(both: Domains, folder: Path, *consumers: str) -> dict[str, Any]:
    """Make a stream with consumers at the hub, and let Silt follow it; return what the import prints."""

    async def make(connection: Client) -> None:
        await api(connection, "hub", "STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        for name in consumers:
            await consumer(connection, name)
        await publish(connection, 50)

    context = folder / "nats" / "context"
    context.mkdir(parents=True)
    (context / "silt.json").write_text(json.dumps({"url": both.hub.url, "jetstream_domain": "silt"}))
    use(both.hub, make)
    return silt(folder, "import", "--from", both.hub.url, "--domain", "hub", "--as-mirror", "ORDERS")


async def consumer(connection: Client, name: str) -> None:
    """Make a consumer of the stream at the hub."""
    config = {"durable_name": name, "ack_policy": "explicit"}
    await api(connection, "hub", f"CONSUMER.CREATE.ORDERS.{name}", {"stream_name": "ORDERS", "config": config})


async def is_undone(connection: Client, name: str) -> None:
    """The origin has its subjects, and this consumer goes on; the mirror is what it was."""
    origin = await api(connection, "hub", "STREAM.INFO.ORDERS")
    assert origin["config"]["subjects"] == ["orders.>"]
    assert not (await api(connection, "hub", f"CONSUMER.INFO.ORDERS.{name}")).get("paused")
    mirror = await api(connection, "silt", "STREAM.INFO.ORDERS")
    assert mirror["config"]["mirror"]["name"] == "ORDERS"
    assert "silt.cutover" not in mirror["config"]["metadata"]


def test_a_domain_of_the_same_hub_is_followed_and_cut_over(tmp_path: Path) -> None:
    """No process stays beside the gateway; a cutover that is refused is undone; after one clients publish to Silt.

    Where the origin's last message is gone and was never copied, what to do is said.
    """
    with two_domains(tmp_path / "domains") as both:
        _script(both, tmp_path)


def _script(both: Domains, folder: Path) -> None:
    async def more(connection: Client) -> None:
        acks = await publish(connection, 5)
        assert {one["domain"] for one in acks} == {"hub"}
        await reaches(connection, "silt", "ORDERS", 55)

    async def clash(connection: Client) -> None:
        await api(connection, "silt", "STREAM.CREATE.CLASH", {"name": "CLASH", "subjects": ["orders.old"]})

    async def undone(connection: Client) -> None:
        await is_undone(connection, "c")
        await api(connection, "silt", "STREAM.DELETE.CLASH")

    async def gap(connection: Client) -> None:
        [ack] = await publish(connection, 1)
        await api(connection, "hub", "STREAM.MSG.DELETE.ORDERS", {"seq": ack["seq"]})

    async def nothing(_: Client) -> None:
        pass

    async def one_more(connection: Client) -> None:
        await publish(connection, 1)

    async def after(connection: Client) -> None:
        assert [(one["domain"], one["seq"]) for one in await publish(connection, 2)] == [("silt", 58), ("silt", 59)]
        told = await api(connection, "silt", "CONSUMER.INFO.ORDERS.c")
        assert told["num_pending"] == 58

    told = prepare(both, folder, "c")
    assert (told["outcome"], told["messages"], told["consumers"]) == ("imported", 50, 1)
    use(both.hub, more)
    use(both.hub, clash)
    status, text = command(folder, "cutover", "ORDERS")
    assert (status, "the origin goes on as before" in text) == (1, True), text
    use(both.hub, undone)
    both.other.stop()
    use(both.hub, gap, domains=("hub",))
    both.other.start()
    use(both.hub, nothing)
    status, text = command(folder, "cutover", "ORDERS")
    assert (status, "publish one more message there" in text) == (1, True), text
    use(both.hub, one_more)
    told = silt(folder, "cutover", "ORDERS")
    assert (told["messages"], told["last_seq"], told["consumers"]) == (56, 57, 1)
    use(both.hub, after)


class Unreadable(Origin):
    """An origin whose backup, which has the positions of consumers, breaks off."""

    async def positions(self, stream: str, *, last_seq: int) -> list[ArchivedConsumer]:
        """Fail as a backup that is cut does."""
        raise BadArchive(f"{stream} ended early before {last_seq}")


def test_consumers_may_come_and_go_meanwhile(tmp_path: Path) -> None:
    """One that is gone stops no cutover and no undoing, one that is new is paused and brought like the others."""

    async def change(connection: Client) -> None:
        await api(connection, "hub", "CONSUMER.DELETE.ORDERS.gone")
        await consumer(connection, "late")

    async def script(both: Domains, kind: type[Origin]) -> int:
        connection = await nats.connect(both.hub.url)

        @contextmanager
        def steps(what: str, _total: int) -> Iterator[Advance]:
            if "at the origin" in what and kind is Unreadable:
                with ThreadPoolExecutor(1) as other:
                    other.submit(use, both.hub, change).result(timeout=30)
            yield lambda _done: None

        try:
            there, here = (Api(connection, prefix=f"$JS.{domain}.API") for domain in ("hub", "silt"))
            comparison = StreamComparison(await kind.at(there, "hub"), await Origin.at(here, "silt"), steps)
            return (await Cutover(comparison, time.monotonic).run("ORDERS")).consumers
        finally:
            await connection.close()

    async def paused(connection: Client) -> bool:
        return bool((await api(connection, "hub", "CONSUMER.INFO.ORDERS.late"))["paused"])

    with two_domains(tmp_path / "domains") as both:
        prepare(both, tmp_path, "c", "gone")
        with pytest.raises(BadArchive):
            asyncio.run(script(both, Unreadable))
        use(both.hub, lambda connection: is_undone(connection, "late"))
        assert asyncio.run(script(both, Origin)) == 2
        assert use(both.hub, paused)
