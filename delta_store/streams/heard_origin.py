"""What a copy has heard of an origin elsewhere, for stream info. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class HeardOrigin:
    """The newest of what one origin said; forgotten when the process ends."""

    lag: int = 0
    """Messages that the origin had left for the copy."""
    last_ns: int = 0
    """When it was heard last, 0 for never."""
    recreated: bool = False
    """Whether it is another stream than the one that was copied so far."""
    error: dict[str, Any] | None = None
    """Why there is no consumer of it, as the origin says; None where nothing is wrong."""
