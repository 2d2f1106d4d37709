"""Whether the connection is up, and whether it was lost since the last look.

nats-py tells this to callbacks that belong to whoever connected, so it is looked at here: its count of reconnects
misses no loss, however short. A look costs two attributes.
"""

from enum import Enum, auto

from nats.aio.client import Client

LOOK_SECONDS = 0.1
"""Longest time between two looks."""


class ConnectionState(Enum):
    """How the connection is."""

    UP = auto()
    RENEWED = auto()
    """It was lost since the last look, and is back: what the server knew by it is gone."""
    DOWN = auto()
    DRAINING = auto()
    CLOSED = auto()


class ConnectionWatch:
    """Looks at one connection for one observer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reconnects = client.stats["reconnects"]

    def look(self) -> ConnectionState:
        """How it is now; a renewal is told once."""
        if self._client.is_closed:
            return ConnectionState.CLOSED
        if self._client.is_draining:
            return ConnectionState.DRAINING
        if not self._client.is_connected:
            return ConnectionState.DOWN
        reconnects = self._client.stats["reconnects"]
        if reconnects != self._reconnects:
            self._reconnects = reconnects
            return ConnectionState.RENEWED
        return ConnectionState.UP
