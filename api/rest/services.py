"""The parts of the HTTP process that routes need beside the store. Each is imported and started by its first use."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.rest.publisher import Publisher
    from api.rest.shared_files import SharedFiles
    from api.rest.sql_desk import SqlDesk


@dataclass(slots=True)
class Services:
    """The services of one process; None for those that it does not have."""

    publisher: "Publisher | None" = None
    sql: "SqlDesk | None" = None
    shared: "SharedFiles | None" = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process ends: answers without an end then end by themselves."""

    async def close(self) -> None:
        """End the processes and connections of the services."""
        if self.sql is not None:
            self.sql.close()
        if self.publisher is not None:
            await self.publisher.close()
