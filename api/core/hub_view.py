"""What the core sees of the hub."""

from collections.abc import Callable
from dataclasses import dataclass

from ingest.protocol.interest import InterestTable


@dataclass(frozen=True, slots=True)
class HubView:
    """Who listens at the hub, and what it lets through."""

    interest: InterestTable
    payload_max: Callable[[], int]
    """Bytes of header and payload that one message may have."""
