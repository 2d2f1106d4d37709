"""The message of a cut: the place of each stream's last row before it. Pure."""

import json
from typing import Final

from delta_store.values.records import Position

CUTS: Final = "SILT_CUTS"
"""The stream of the cuts. It takes no subjects, so that nobody publishes to it; it is made with the first cut."""


def cut_data(places: dict[str, Position]) -> bytes:
    """Return a cut's message: the last row's place (id, sequence, number of events) of each stream by name."""
    return json.dumps({"streams": places}, separators=(",", ":")).encode()


def place_in(data: bytes, stream: str, stream_id: int) -> Position | None:
    """Return a stream's place at a cut, None where this incarnation was not there. Raises ``ValueError``."""
    try:
        place = json.loads(data)["streams"].get(stream)
        return Position(*map(int, place)) if place is not None and place[0] == stream_id else None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ValueError("the message is no cut's") from error
