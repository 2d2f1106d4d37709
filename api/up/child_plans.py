"""The command lines of the processes that ``silt up`` consists of."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.hub.hub_config import Login
from api.process.child_process import ChildPlan


def gateway_plan(data: Path, hub: Mapping[str, Any]) -> ChildPlan:
    """The gateway, joined to ``hub``. Who it enters as goes into its environment: everybody can read arguments."""
    login: Login = hub["leaf_login"]
    env = {
        "SILT_NATS__URL": hub["url"],
        "SILT_NATS__LEAF_URL": hub["leaf_url"],
        "SILT_NATS__API_OVER": "leaf",
        "SILT_NATS__LEAF_USER": login.user,
        "SILT_NATS__LEAF_PASSWORD": login.password,
    }
    return ChildPlan("gateway", lambda _: _module("api.gateway.gateway_main", "--data", str(data)), env=env)


def settle_plan(data: Path) -> ChildPlan:
    """The settle job; it works in a folder of its own, because Spark leaves things where it stands.

    It gives way (``settle.nice``) to all else: nobody waits for it.
    """
    folder = data / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return ChildPlan("settle", lambda _: _module("delta_store.settling.settle_main", "--data", str(data)), cwd=folder)


def serve_plan(data: Path, http_port: int) -> ChildPlan:
    """The HTTP server; started again, it takes the port it had.

    It answers no Direct Get here: the gateway does, and a client that reads over NATS sees what it just published.
    """

    def command(said: Mapping[str, Any]) -> Sequence[str]:
        port = said.get("port", http_port)
        return _module("api.rest.serve_main", "--data", str(data), "--http-port", str(port), "--http-only")

    return ChildPlan("serve", command)


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", name, *arguments]
