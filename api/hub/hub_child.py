"""The embedded nats-server as a child of the supervisor."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.hub.hub_config import HubBinaryMissing, HubConfig, find_nats_server
from api.hub.hub_credentials import hub_credentials, write_context
from api.hub.hub_process import HubNotStarted, HubProcess
from api.process.child_process import Child, ChildFailed
from api.process.process_log import ProcessLog
from conf.limits import HUB_START_SECONDS
from conf.setting_sources import SettingsError
from conf.settings import Settings


@dataclass(frozen=True, slots=True)
class HubPlan:
    """The plan of nats-server with JetStream off and a leafnode listener; a restart keeps its ports."""

    folder: Path
    port: int
    settings: Settings
    name: str = "hub"

    def child(self, log: ProcessLog) -> Child:
        """Return a new run; nats-server writes its own log in ``folder``."""
        del log
        return HubChild(self)


class HubChild:
    """One run of a :class:`HubPlan`."""

    def __init__(self, plan: HubPlan) -> None:
        self._plan = plan
        self._hub: HubProcess | None = None
        self._said: Mapping[str, Any] = {}

    @property
    def pid(self) -> int:
        """The process id of nats-server."""
        assert self._hub is not None
        return self._hub.pid

    async def start(self, said_before: Mapping[str, Any]) -> None:
        """Start the server and wait until both listeners answer."""
        port, leaf_port = said_before.get("port", self._plan.port), said_before.get("leaf_port", 0)
        folder, settings = self._plan.folder, self._plan.settings
        try:
            credentials = hub_credentials(folder, settings.nats)
            client = credentials.client if settings.hub.require_credentials else None
            config = HubConfig(
                folder=folder,
                port=port,
                leaf_port=leaf_port,
                leaf_user=credentials.leaf.user,
                leaf_password=credentials.leaf.password,
                client_user=client.user if client else "",
                client_password=client.password if client else "",
            )
            self._hub = HubProcess(find_nats_server(), config)
            address = await self._hub.start(HUB_START_SECONDS)
            write_context(folder, address.url, client)
        except (HubBinaryMissing, HubNotStarted, SettingsError, OSError, ValueError) as error:
            raise ChildFailed(str(error)) from error
        self._said = {
            "url": address.url,
            "port": address.port,
            "leaf_url": address.leaf_url,
            "leaf_port": address.leaf_port,
            "leaf_login": credentials.leaf,
        }

    async def run(self) -> int:
        """Wait until the server ends; return its exit status."""
        assert self._hub is not None
        return await self._hub.wait()

    async def wait_answering(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Return its addresses; it answers once started."""
        return await self.wait_ready(timeout_seconds)

    async def wait_ready(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Return its addresses; it is ready once started."""
        del timeout_seconds
        return self._said

    async def stop(self, timeout_seconds: float, *, hurry: asyncio.Event | None = None) -> None:
        """End the server; it has nothing to drain."""
        if self._hub is not None:
            await self._hub.stop(0.1 if hurry is not None and hurry.is_set() else timeout_seconds)
