"""An existing stream: its name, incarnation and configuration."""

from typing import NamedTuple


class Head(NamedTuple):
    """An existing stream."""

    stream: str
    stream_id: int
    created_ns: int
    config: str
    """The configuration as recorded (JSON)."""
