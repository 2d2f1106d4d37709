"""The JSON of journal rows that remove messages. Pure."""

import json
from typing import Any

from delta_store.values.records import Removal


def removal_data(removal: Removal, *, last_ts: int) -> bytes:
    """Return the ``data`` of a REMOVE row; ``last_ts`` is the time of the stream's last message, removed or not."""
    shown = {"ranges": removal.ranges, "reason": removal.reason, "erase": removal.erase, "last_ts": last_ts}
    return json.dumps(shown, separators=(",", ":")).encode()


def read_removal(data: bytes) -> tuple[Removal, int]:
    """Return the removal of a REMOVE row, and its ``last_ts`` (ns; 0 when it is not known)."""
    shown: dict[str, Any] = json.loads(data)
    ranges = [(int(first), int(last)) for first, last in shown["ranges"]]
    return Removal(ranges, str(shown["reason"]), bool(shown["erase"])), int(shown.get("last_ts", 0))
