"""Servers for NATS clients that are killed piece by piece and come back on the same port: Silt, and nats-server."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from tests.faults.installation import Installation
from tests.hubs import free_port
from tests.servers import (
    Child,
    Gateway,
    NatsServer,
    answers_api,
    gateway_command,
    nats_server_binary,
    wait_until,
)

ANSWERS_SECONDS = 120.0


class Killable(Protocol):
    """A JetStream whose processes can be killed."""

    parts: tuple[str, ...]
    """The processes that may be killed, alone or together."""
    url: str

    def kill(self, *names: str) -> None:
        """SIGKILL to these processes at once."""
        ...

    def come_back(self) -> None:
        """Wait until the API answers again; what was killed starts again by itself or here."""
        ...


class Parts:
    """A hub and a gateway, without Spark: what ``silt up`` runs between clients and disk."""

    parts = ("gateway", "hub")

    def __init__(self, folder: Path) -> None:
        port, leaf_port = free_port(), free_port()
        self.url = f"nats://127.0.0.1:{port}"
        config = folder / "hub.conf"
        leafs = f"leafnodes {{ listen: 127.0.0.1:{leaf_port} }}"
        config.write_text(f'listen: 127.0.0.1:{port}\n{leafs}\ndefault_js_domain: {{ "$G": "" }}\n')
        hub = Child([str(nats_server_binary()), "-c", str(config)], folder / "hub.log")
        address = NatsServer(hub, self.url, f"nats://127.0.0.1:{leaf_port}")
        data = folder / "data"
        self.gateway = Gateway(address, data, Child(gateway_command(address, data), folder / "gateway.log"))
        self._children = {"gateway": self.gateway.child, "hub": hub}

    def kill(self, *names: str) -> None:
        """SIGKILL to these processes at once."""
        for name in names:
            process = self._children[name].process
            assert process is not None
            process.kill()
        for name in names:
            self._children[name].kill()

    def come_back(self) -> None:
        """Start what does not run, the hub first, and wait until the API answers."""
        for name in ("hub", "gateway"):
            if not self._children[name].alive():
                self._children[name].start()
        wait_until(lambda: answers_api(self.url), what="the API answers", seconds=ANSWERS_SECONDS)

    def stop(self) -> None:
        """End both in order."""
        self.gateway.child.stop()
        self._children["hub"].stop()


class Reference:
    """nats-server with JetStream's file store at its default settings: one process is all there is."""

    parts = ("nats-server",)

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        config = folder / "nats.conf"
        config.write_text(f"listen: 127.0.0.1:{port}\njetstream {{ store_dir: {json.dumps(str(folder / 'store'))} }}\n")
        self._child = Child([str(nats_server_binary()), "-c", str(config)], folder / "nats-server.log")

    def kill(self, *_names: str) -> None:
        """SIGKILL."""
        self._child.kill()

    def come_back(self) -> None:
        """Start it again and wait until it answers."""
        if not self._child.alive():
            self._child.start()
        wait_until(lambda: answers_api(self.url), what="the API answers", seconds=ANSWERS_SECONDS)

    def stop(self) -> None:
        """End it in order."""
        self._child.stop()


class Whole:
    """``silt up``, which starts again what is killed: with Spark settling behind."""

    parts = ("gateway", "hub")

    def __init__(self, folder: Path) -> None:
        self._up = Installation(folder, folder / "data")
        self.url = self._up.url

    def kill(self, *names: str) -> None:
        """SIGKILL to these processes one right after the other."""
        for name in names:
            self._up.kill(name)

    def come_back(self) -> None:
        """Start ``silt up`` if it does not run yet, and wait until the API answers."""
        if not self._up.started:
            self._up.start()
        wait_until(lambda: answers_api(self.url), what="the API answers", seconds=ANSWERS_SECONDS)

    def stop(self) -> None:
        """End it in order."""
        self._up.stop()


KINDS = {"silt": Parts, "nats-server": Reference, "up": Whole}


@contextmanager
def killable(kind: str, folder: Path) -> Iterator[Killable]:
    """One of :data:`KINDS`, running until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    server = KINDS[kind](folder)
    with ExitStack() as held:
        held.callback(server.stop)
        server.come_back()
        yield server
