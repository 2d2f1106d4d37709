"""The command lines of the processes of ``silt up``."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.hub.hub_config import HUB_FOLDER, Login
from api.hub.hub_credentials import CONTEXT_FILE
from api.process.child_process import ChildPlan
from conf.data_location import DataLocation


def gateway_plan(data: DataLocation, hub: Mapping[str, Any]) -> ChildPlan:
    """Return the plan of the gateway, linked to ``hub``. Its login is in the environment: arguments are public."""
    login: Login = hub["leaf_login"]
    env = {
        "SILT_NATS__URL": hub["url"],
        "SILT_NATS__LEAF_URL": hub["leaf_url"],
        "SILT_NATS__API_OVER": "leaf",
        "SILT_NATS__LEAF_USER": login.user,
        "SILT_NATS__LEAF_PASSWORD": login.password,
    }
    return ChildPlan("gateway", lambda _: _module("api.gateway.gateway_main", "--data", str(data)), env=env)


def settle_plan(data: DataLocation, local: Path) -> ChildPlan:
    """Return the plan of the settle job, with a working folder of its own, because Spark leaves files there."""
    folder = local / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return ChildPlan("settle", lambda _: _module("delta_store.settling.settle_main", "--data", str(data)), cwd=folder)


def serve_plan(data: DataLocation, http_port: int, local: Path) -> ChildPlan:
    """Return the plan of the HTTP server; a restart keeps its port. It publishes by the context that the hub writes.

    It answers no Direct Get: the gateway does, so that a client reads over NATS what it has just published.
    """

    def command(said: Mapping[str, Any]) -> Sequence[str]:
        port = said.get("port", http_port)
        return _module("api.rest.serve_main", "--data", str(data), "--http-port", str(port), "--http-only")

    context = local / HUB_FOLDER / CONTEXT_FILE
    return ChildPlan("serve", command, env={"SILT_HTTP__PUBLISH_CONTEXT_FILE": str(context)})


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", name, *arguments]
