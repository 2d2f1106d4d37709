"""Backups by the ``nats`` CLI, unmodified, from one server to the other: the same messages, consumers going on."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.comparable import run
from tests.s3 import BUCKET, s3_server, store_variables
from tests.servers import Child, Gateway, gateway_command, nats_server
from tests.wire import Wire

MAKING = (
    "stream add ORDERS --subjects=orders.> --defaults --max-age=1d --dupe-window=30s --metadata=team:silt",
    "pub orders.{{Count}} message-{{Count}}-{{Time}} --count=400 --jetstream -H A:1 -H B:{{Count}}",
    "stream rmm ORDERS 1 --force",
    "stream rmm ORDERS 7 --force",
    "stream rmm ORDERS 400 --force",
    "consumer add ORDERS work --pull --defaults --ack=explicit --wait=5m",
    "consumer next ORDERS work --count=5 --ack",
    "consumer next ORDERS work --no-ack",
    "consumer next ORDERS work --ack",
    "consumer add ORDERS some --pull --defaults --ack=all --filter=orders.*",
    "consumer add ORDERS all --pull --defaults --ack=none",
    "consumer next ORDERS all --count=3",
)


def command(cli: str, url: str, line: str) -> str:
    """What a command that succeeds prints."""
    status, text = run([cli, "--server", url, *line.split()])
    assert status == 0, f"{line}: {text}"
    return text


async def seen(url: str, stream: str) -> dict[str, Any]:
    """All that a client can see of a stream's messages, state and consumers, but times of this server's own."""
    async with Wire.open(url) as wire:

        async def ask(endpoint: str, body: object = "") -> dict[str, Any]:
            payload = body if isinstance(body, str) else json.dumps(body)
            reply = await wire.ask(f"$JS.API.{endpoint}", payload.encode())
            assert reply is not None
            found: dict[str, Any] = json.loads(reply.payload)
            return found

        info = await ask(f"STREAM.INFO.{stream}", {"deleted_details": True, "subjects_filter": ">"})
        last = info["state"]["last_seq"]
        messages = [await ask(f"STREAM.MSG.GET.{stream}", {"seq": seq}) for seq in range(1, last + 1)]
        consumers = (await ask(f"CONSUMER.LIST.{stream}"))["consumers"]
    shown = ("name", "config", "num_ack_pending", "num_redelivered", "num_pending")
    places = {
        one["name"]: {key: {**one[key], "last_active": 0} for key in ("delivered", "ack_floor")} for one in consumers
    }
    info["config"].get("metadata", {}).pop("_nats.ver", None)
    # Where the last message is deleted nats-server takes the time of the restore for its own.
    info["state"].pop("last_ts")
    return {
        "config": info["config"],
        "state": info["state"],
        "messages": [one.get("message", one.get("error")) for one in messages],
        "consumers": [{key: one[key] for key in shown} for one in sorted(consumers, key=lambda one: one["name"])],
        "places": places,
    }


def make(cli: str, url: str) -> dict[str, Any]:
    """Make a stream with gaps and consumers in different places; return what is seen of it."""
    for line in MAKING:
        command(cli, url, line)
    return asyncio.run(seen(url, "ORDERS"))


@pytest.mark.parametrize(("of", "to"), [(0, 1), (1, 0), (1, 1)])
def test_a_backup_is_restored(cli: str, pair: tuple[str, str], tmp_path: Path, of: int, to: int) -> None:
    """From either server to either: messages, gaps, state and consumers are the same, and consumers go on."""
    before = make(cli, pair[of])
    command(cli, pair[of], f"stream backup ORDERS {tmp_path}/b --no-progress")
    if of == to:
        command(cli, pair[of], "stream rm ORDERS --force")
    command(cli, pair[to], f"stream restore {tmp_path}/b --no-progress")
    assert asyncio.run(seen(pair[to], "ORDERS")) == before
    assert "subj: orders.10 / tries: 1 / cons seq: 8" in command(cli, pair[to], "consumer next ORDERS work --ack")
    command(cli, pair[to], "pub orders.new more --jetstream")
    assert asyncio.run(seen(pair[to], "ORDERS"))["messages"][400]["seq"] == 401


def test_a_backup_is_restored_in_an_object_store(cli: str, tmp_path: Path) -> None:
    """The same out of a bucket and back into it, also by a gateway that has just opened it."""
    with s3_server() as server, nats_server(tmp_path / "hub", leaf=True) as hub:
        place = f"s3://{BUCKET}/backups"
        child = Child(gateway_command(hub, place), tmp_path / "gateway.log", store_variables(server.url))
        gateway = Gateway(hub, place, child)
        try:
            gateway.start()
            before = make(cli, hub.url)
            command(cli, hub.url, f"stream backup ORDERS {tmp_path}/b --no-progress")
            command(cli, hub.url, "stream rm ORDERS --force")
            command(cli, hub.url, f"stream restore {tmp_path}/b --no-progress")
            assert asyncio.run(seen(hub.url, "ORDERS")) == before
            assert child.stop() == 0
            gateway.start()
            assert asyncio.run(seen(hub.url, "ORDERS")) == before
        finally:
            child.stop()


def test_an_account_goes_there_and_back(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """All streams of an account go to the other server and come back unchanged."""
    reference, silt = pair
    for name in ("A", "B"):
        command(cli, reference, f"stream add {name} --subjects={name}.> --defaults")
        command(cli, reference, f"pub {name}.x hello --count=50 --jetstream")
        command(cli, reference, f"consumer add {name} c --pull --defaults")
    command(cli, reference, "kv add KEYS --history=3")
    command(cli, reference, "kv put KEYS a 1")
    command(cli, reference, "kv put KEYS a 2")
    names = ("A", "B", "KV_KEYS")
    before = [asyncio.run(seen(reference, name)) for name in names]
    command(cli, reference, f"account backup {tmp_path}/there --force")
    command(cli, silt, f"account restore {tmp_path}/there")
    assert [asyncio.run(seen(silt, name)) for name in names] == before
    assert command(cli, silt, "kv get KEYS a --raw").strip() == "2"
    command(cli, silt, f"account backup {tmp_path}/back --force")
    for name in names:
        command(cli, reference, f"stream rm {name} --force")
    command(cli, reference, f"account restore {tmp_path}/back")
    assert [asyncio.run(seen(reference, name)) for name in names] == before


@pytest.mark.parametrize("options", ["--no-consumers", "--check", ""])
def test_backups_are_alike(cli: str, pair: tuple[str, str], tmp_path: Path, options: str) -> None:
    """The CLI writes the same beside a backup, and says the same, whichever server it has asked."""
    texts, metas = [], []
    for name, url in zip("rs", pair, strict=True):
        command(cli, url, "stream add B --subjects=b --defaults")
        command(cli, url, "consumer add B c --pull --defaults")
        command(cli, url, "pub b hello --count=3 --jetstream")
        texts.append(command(cli, url, f"stream backup B {tmp_path / name} --no-progress {options}").splitlines()[0])
        meta = json.loads((tmp_path / name / "backup.json").read_text())
        meta["state"].pop("first_ts"), meta["state"].pop("last_ts")
        metas.append(meta)
    assert texts[0] == texts[1]
    assert metas[0] == metas[1]
