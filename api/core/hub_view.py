"""The core's view of the hub."""

from collections.abc import Callable
from dataclasses import dataclass

from ingest.protocol.interest import InterestTable


@dataclass(frozen=True, slots=True)
class HubView:
    """The hub's interest and its limit of messages."""

    interest: InterestTable
    payload_max: Callable[[], int]
    """Returns the most bytes of header and payload in one message."""
