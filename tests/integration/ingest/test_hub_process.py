"""The embedded nats-server: ports, failures, order of stopping, and no orphan."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from api.hub.hub_config import HubConfig, find_nats_server
from api.hub.hub_process import HubNotStarted, HubProcess
from tests.hubs import WAIT, free_port, running
from tests.servers import is_running, wait_until


def greets(port: int) -> bool:
    """Whether a nats-server answers there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as peer:
            return peer.recv(5) == b"INFO "
    except OSError:
        return False


def test_both_listeners_answer_when_start_returns_and_none_after_stop(tmp_path: Path) -> None:
    """Free ports are found by the server itself, and two hubs never get the same."""

    async def scenario() -> None:
        async with running(HubConfig(tmp_path / "one")) as one, running(HubConfig(tmp_path / "two")) as two:
            ports = {one.port, one.leaf_port, two.port, two.leaf_port}
            assert len(ports) == 4
            assert all(greets(port) for port in ports)
        assert not any(greets(port) for port in ports)

    asyncio.run(scenario())


def test_a_hub_starts_again_on_the_ports_and_folder_it_had(tmp_path: Path) -> None:
    """The old log and files of a killed hub do not mislead the next start."""

    async def scenario() -> None:
        config = HubConfig(tmp_path, port=free_port(), leaf_port=free_port(), leaf_user="u", leaf_password="p")
        first = HubProcess(find_nats_server(), config)
        address = await first.start(WAIT)
        assert (config.config_file.stat().st_mode & 0o777) == 0o600
        os.kill(first.pid, signal.SIGKILL)
        assert await first.wait() == -signal.SIGKILL
        async with running(config) as again:
            assert again == address

    asyncio.run(scenario())


def test_a_taken_port_is_reported_with_the_servers_own_words(tmp_path: Path) -> None:
    """The error holds the end of the log, and nothing is left running."""

    async def scenario() -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            hub = HubProcess(find_nats_server(), HubConfig(tmp_path, port=holder.getsockname()[1]))
            with pytest.raises(HubNotStarted, match="address already in use"):
                await hub.start(WAIT)
            assert await hub.wait() != 0

    asyncio.run(scenario())


def test_a_server_that_never_answers_is_killed(tmp_path: Path) -> None:
    """Start gives up in its time and leaves no process."""

    async def scenario() -> None:
        silent = tmp_path / "silent"
        silent.write_text("#!/bin/sh\nexec sleep 1000\n")
        silent.chmod(0o755)
        hub = HubProcess(silent, HubConfig(tmp_path))
        with pytest.raises(HubNotStarted, match="did not answer"):
            await hub.start(0.3)
        assert await hub.wait() == -signal.SIGKILL

    asyncio.run(scenario())


def test_a_server_that_ignores_sigterm_is_killed_after_its_time(tmp_path: Path) -> None:
    """A stopped (SIGSTOP) server can't end by itself; stop ends it all the same."""

    async def scenario() -> None:
        hub = HubProcess(find_nats_server(), HubConfig(tmp_path))
        await hub.start(WAIT)
        os.kill(hub.pid, signal.SIGSTOP)
        assert await hub.stop(0.2) == -signal.SIGKILL
        assert not is_running(hub.pid)

    asyncio.run(scenario())


PARENT = """
import asyncio, sys
from pathlib import Path
from api.hub.hub_config import HubConfig, find_nats_server
from api.hub.hub_process import HubProcess

async def main() -> None:
    hub = HubProcess(find_nats_server(), HubConfig(Path(sys.argv[1])))
    await hub.start(10)
    print(hub.pid, flush=True)
    await asyncio.sleep(100)

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_hub_dies_with_a_killed_parent_and_not_by_its_ctrl_c(tmp_path: Path, loop: str) -> None:
    """SIGKILL of the parent leaves no orphan; a terminal's interrupt does not reach the hub."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), loop], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    try:
        assert parent.stdout is not None
        hub = int(parent.stdout.readline())
        assert is_running(hub)
        assert os.getpgid(hub) != os.getpgid(parent.pid)
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not is_running(hub), what="the hub ends")
