"""The state of the connection, and whether it was lost since it was last read.

nats-py's callbacks for this belong to the caller who connected, so it is polled here: the count of reconnects misses
no loss, however short, and a poll reads a few attributes.
"""

from enum import Enum, auto

from nats.aio.client import Client

LOOK_SECONDS = 0.1
"""Longest time between two polls."""


class ConnectionState(Enum):
    """The state of a connection."""

    UP = auto()
    RENEWED = auto()
    """Lost since the last poll and made again: the server has forgotten the old one's subscriptions and pulls."""
    DOWN = auto()
    DRAINING = auto()
    CLOSED = auto()


class ConnectionWatch:
    """One observer's view of a connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reconnects = client.stats["reconnects"]

    def look(self) -> ConnectionState:
        """Return the state now; a renewal is returned once."""
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
