"""``silt stream backup|restore``: there and back with nats-server, and as of a past point."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.comparable import run
from tests.integration.clients.test_nats_cli_backup import command, make, seen
from tests.wire import Wire


def silt(url: str, *arguments: str) -> tuple[int, str]:
    """Status and output of ``silt stream …``."""
    verb, *rest = arguments
    return run([sys.executable, "-m", "api.cli.main", "stream", verb, *rest, "--server", url])


def shown(url: str, *arguments: str) -> dict[str, Any]:
    """What a command that succeeds prints."""
    status, text = silt(url, *arguments, "--output", "json")
    assert status == 0, text
    return dict(json.loads(text))


@pytest.mark.parametrize(("of", "to"), [(0, 1), (1, 0)])
def test_a_backup_is_restored_by_either(cli: str, pair: tuple[str, str], tmp_path: Path, of: int, to: int) -> None:
    """Either server's backup is restored by the other, consumers included, and the nats CLI takes its folder."""
    before = make(cli, pair[of])
    made = shown(pair[of], "backup", "ORDERS", str(tmp_path / "b"))
    assert (made["messages"], made["consumers"]) == (397, 3)
    assert shown(pair[to], "restore", str(tmp_path / "b"))["messages"] == 397
    assert asyncio.run(seen(pair[to], "ORDERS")) == before
    command(cli, pair[to], "stream rm ORDERS --force")
    command(cli, pair[to], f"stream restore {tmp_path}/b --no-progress")
    assert asyncio.run(seen(pair[to], "ORDERS")) == before


async def _fill(url: str) -> None:
    async with Wire.open(url) as wire:
        await wire.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"],"max_msgs":4}')
        await wire.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", b'{"stream_name":"S","config":{"durable_name":"c"}}')
    await _publish(url, 1, 10)


async def _publish(url: str, start: int, stop: int) -> None:
    async with Wire.open(url) as wire:
        for number in range(start, stop):
            assert await wire.ask(f"s.{number}", b"%d" % number)


def test_a_backup_of_a_past_point(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """It has what was live at that sequence, also what limits have removed since, and nats-server restores it."""
    reference, url = pair
    asyncio.run(_fill(url))
    made = shown(url, "backup", "S", str(tmp_path / "b"), "--as-of", "6")
    assert {key: made[key] for key in ("messages", "first_seq", "last_seq", "consumers")} == {
        "messages": 4,
        "first_seq": 3,
        "last_seq": 6,
        "consumers": 0,
    }
    command(cli, reference, f"stream restore {tmp_path}/b --no-progress")
    messages = asyncio.run(seen(reference, "S"))["messages"]
    assert [one.get("subject") for one in messages] == [None, None, "s.3", "s.4", "s.5", "s.6"]
    command(cli, url, "stream rm S --force")
    assert shown(url, "restore", str(tmp_path / "b"))["last_seq"] == 6
    assert asyncio.run(seen(url, "S"))["messages"] == messages


def test_a_backup_of_a_cut(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """What was live when the cut was taken, which limits have removed since; an increment to a later one follows it."""
    reference, url = pair
    folder = tmp_path / "b"
    asyncio.run(_fill(url))
    assert run([sys.executable, "-m", "api.cli.main", "cut", "whole", "--server", url])[0] == 0
    before = asyncio.run(seen(url, "S"))["messages"]
    asyncio.run(_publish(url, 10, 12))
    assert run([sys.executable, "-m", "api.cli.main", "cut", "added", "--server", url])[0] == 0
    later = asyncio.run(seen(url, "S"))["messages"]
    asyncio.run(_publish(url, 12, 30))
    made = shown(url, "backup", "S", str(folder), "--as-of", "cut:whole")
    assert [made[key] for key in ("messages", "first_seq", "last_seq", "consumers")] == [4, 6, 9, 0]
    shown(reference, "restore", str(folder))
    assert asyncio.run(seen(reference, "S"))["messages"] == before
    made = shown(url, "backup", "S", str(folder), "--as-of", "cut:added", "--incremental")
    assert [made[key] for key in ("messages", "first_seq", "last_seq", "consumers")] == [4, 8, 11, 0]
    status, text = silt(url, "backup", "S", str(folder), "--as-of", "cut:whole", "--incremental")
    assert (status, "the backup in the folder is of a later point" in text) == (1, True)
    for place in (reference, url):
        command(cli, place, "stream rm S --force")
        shown(place, "restore", str(folder))
        assert asyncio.run(seen(place, "S"))["messages"] == later


def test_what_can_not_be_done_is_said(pair: tuple[str, str], tmp_path: Path) -> None:
    """Each failure has its exit code and leaves no backup behind."""
    url = pair[1]
    asyncio.run(_fill(url))
    assert silt(url, "backup", "T", str(tmp_path / "t"))[0] == 5
    assert not (tmp_path / "t").exists()
    assert silt(url, "backup", "S", str(tmp_path / "s"), "--as-of", "nonsense")[0] == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert silt(url, "backup", "S", str(tmp_path / "full"))[0] == 2
    assert silt(url, "restore", str(tmp_path / "full"))[0] == 2
    shown(url, "backup", "S", str(tmp_path / "s"))
    assert silt(url, "restore", str(tmp_path / "s"))[0] == 1


def test_increments_are_restored_as_one(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """Each adds what came and went since; either server restores the whole as it stood last, pending acks included."""
    reference, url = pair
    make(cli, url)
    folder = str(tmp_path / "b")
    shown(url, "backup", "ORDERS", folder)
    for line in (
        "pub orders.later more-{{Count}} --count=30 --jetstream",
        "stream rmm ORDERS 20 --force",
        "stream rmm ORDERS 410 --force",
        "consumer next ORDERS work --count=3 --ack",
        "consumer next ORDERS work --no-ack",
    ):
        command(cli, url, line)
    assert shown(url, "backup", "ORDERS", folder, "--incremental")["messages"] == 425
    # Nothing has come, one message and a consumer are gone.
    command(cli, url, "stream rmm ORDERS 415 --force")
    command(cli, url, "consumer rm ORDERS some --force")
    made = shown(url, "backup", "ORDERS", folder, "--incremental")
    assert (made["messages"], made["last_seq"], made["consumers"]) == (424, 430, 2)
    assert (tmp_path / "b" / "increment-0001.s2").stat().st_size < (tmp_path / "b" / "stream.tar.s2").stat().st_size
    before = asyncio.run(seen(url, "ORDERS"))
    assert shown(reference, "restore", folder)["messages"] == 424
    assert asyncio.run(seen(reference, "ORDERS")) == before
    command(cli, url, "stream rm ORDERS --force")
    assert shown(url, "restore", folder)["messages"] == 424
    assert asyncio.run(seen(url, "ORDERS")) == before


def test_what_does_not_follow_is_refused(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """An increment of another stream, by a server that makes none, or to what is no backup; a chain with a gap."""
    reference, url = pair
    asyncio.run(_fill(url))
    folder = tmp_path / "b"
    assert silt(url, "backup", "S", str(folder), "--incremental")[0] == 2
    shown(url, "backup", "S", str(folder))
    shown(url, "backup", "S", str(folder), "--incremental")
    shown(url, "backup", "S", str(folder), "--incremental")
    note = folder / "increment-0001.json"
    for name in ("s2", "json"):
        (folder / f"increment-0002.{name}").replace(folder / f"increment-0001.{name}")
    (folder / "increment-0001.s2").write_bytes((folder / "increment-0001.s2").read_bytes()[:-4])
    command(cli, url, "stream rm S --force")
    status, text = silt(url, "restore", str(folder))
    assert (status, "unexpected EOF" in text) == (1, True)
    assert "S" not in command(cli, url, "stream ls --names").split()
    asyncio.run(_fill(url))
    status, text = silt(url, "backup", "S", str(folder), "--incremental")
    assert (status, "it is of another stream" in text) == (1, True)
    assert note.exists()
    asyncio.run(_fill(reference))
    shown(reference, "backup", "S", str(tmp_path / "r"))
    assert silt(reference, "backup", "S", str(tmp_path / "r"), "--incremental")[0] == 1
    command(cli, url, f"stream backup S {tmp_path}/n --no-progress")
    status, text = silt(url, "backup", "S", str(tmp_path / "n"), "--incremental")
    assert (status, "not written by silt stream backup" in text) == (1, True)
