"""Backups by servers before 2.15, tars of their files: restored by Silt with the ``nats`` CLI, as they stood."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from delta_store.archive import s2_frames
from delta_store.archive.s2_frames import FrameReader
from tests.integration.clients.comparable import run
from tests.integration.clients.test_nats_cli_backup import MAKING, command, seen
from tests.servers import nats_server
from tests.tools import OLD_NATS_SERVERS, nats_server_of

MORE = (
    # Compressed when a block is full, of which the first ones go to the limit.
    "stream add BIG --subjects=big.> --defaults --max-bytes=4MB --compression=s2",
    f"pub big.{{{{Count}}}} {'x' * 4000} --count=1200 --jetstream",
    "stream rmm BIG 700 --force",
    "stream rmm BIG 1150 --force",
    "stream add KEYS --subjects=keys.> --defaults --max-msgs-per-subject=2",
    *(f"pub keys.{{{{Count}}}} v{turn} --count=60 --jetstream" for turn in range(3)),
    "stream purge KEYS --subject=keys.5 --force",
    "stream add GONE --subjects=gone --defaults",
    "pub gone x --count=20 --jetstream",
    "stream purge GONE --force",
)
KEY = 'jetstream {{ store_dir: "{}", key: secret, cipher: aes }}'


def told(found: dict[str, Any]) -> dict[str, Any]:
    """What does not differ between versions of the server: not which levels a configuration asks for."""
    config = {key: value for key, value in found["config"].items() if key in ("subjects", "max_bytes", "max_age")}
    return {
        **found,
        "config": config,
        "consumers": [one | {"config": one["config"]["ack_policy"]} for one in found["consumers"]],
    }


@pytest.mark.parametrize("version", OLD_NATS_SERVERS)
def test_a_tar_is_restored(cli: str, pair: tuple[str, str], tmp_path: Path, version: str) -> None:
    """Messages, gaps, state and consumers are as they were; consumers go on; the next message has the next sequence."""
    _, silt = pair
    names = ("ORDERS", "BIG", "KEYS", "GONE")
    with nats_server(tmp_path / "old", jetstream=True, binary=nats_server_of(version)) as old:
        for line in (*MAKING, *MORE):
            # On a busy machine 2.10 damages blocks that it compresses, and can't back them up.
            command(cli, old.url, line.replace("--compression=s2", "") if version.startswith("2.10") else line)
        before = {name: told(asyncio.run(seen(old.url, name))) for name in names}
        for name in names:
            command(cli, old.url, f"stream backup {name} {tmp_path}/{name} --no-progress")
    for name in names:
        command(cli, silt, f"stream restore {tmp_path}/{name} --no-progress")
        assert told(asyncio.run(seen(silt, name))) == before[name]
    assert "subj: orders.10 / tries: 1 / cons seq: 8" in command(cli, silt, "consumer next ORDERS work --ack")
    command(cli, silt, "pub gone more --jetstream")
    assert asyncio.run(seen(silt, "GONE"))["messages"][20]["seq"] == 21


def test_a_damaged_tar_is_refused(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """One whose end is missing leaves nothing."""
    _, silt = pair
    with nats_server(tmp_path / "old", jetstream=True, binary=nats_server_of(OLD_NATS_SERVERS[-1])) as old:
        command(cli, old.url, "stream add S --subjects=s --defaults")
        command(cli, old.url, "pub s hello --count=5000 --jetstream")
        command(cli, old.url, f"stream backup S {tmp_path}/b --no-progress")
    data = tmp_path / "b" / "stream.tar.s2"
    data.write_bytes(data.read_bytes()[:-3000])
    status, text = run([cli, "--server", silt, "stream", "restore", f"{tmp_path}/b", "--no-progress"])
    assert status != 0
    assert "unexpected EOF" in text
    assert "S" not in command(cli, silt, "stream ls --names").split()


@pytest.mark.parametrize("version", OLD_NATS_SERVERS)
def test_what_the_origins_disk_altered_is_told(cli: str, pair: tuple[str, str], tmp_path: Path, version: str) -> None:
    """The record of one message is not what was stored, though the backup came whole: it is named, nothing is left."""
    _, silt = pair
    with nats_server(tmp_path / "old", jetstream=True, binary=nats_server_of(version)) as old:
        command(cli, old.url, "stream add S --subjects=s --defaults")
        command(cli, old.url, "pub s hello-{{Count}} -H Kind:fruit --count=5000 --jetstream")
        command(cli, old.url, f"stream backup S {tmp_path}/b --no-progress")
    data = tmp_path / "b" / "stream.tar.s2"
    content = b"".join(FrameReader().feed(data.read_bytes()))
    data.write_bytes(s2_frames.BEGIN + s2_frames.encode(content.replace(b"hello-2345", b"hello-2x45")))
    status, text = run([cli, "--server", silt, "stream", "restore", f"{tmp_path}/b", "--no-progress"])
    assert status != 0
    assert "msgs/1.blk: the record of sequence 2345 is damaged: its hash is another one" in text
    assert "S" not in command(cli, silt, "stream ls --names").split()
    data.write_bytes(s2_frames.BEGIN + s2_frames.encode(content))
    command(cli, silt, f"stream restore {tmp_path}/b --no-progress")
    assert asyncio.run(seen(silt, "S"))["messages"][-1]["seq"] == 5000
