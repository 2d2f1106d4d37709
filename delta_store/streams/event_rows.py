"""Journal rows that are not messages, and their JSON: streams created, updated, deleted, messages removed."""

import json
from collections.abc import Sequence
from typing import Any, Final

from delta_store.config.stream_config import StreamConfig
from delta_store.values.records import Kind, Removal, Row, checksum

BEGUN: Final = "begun"
DONE: Final = "done"
"""What a STREAM row says of a stream that comes from a backup: not whole yet, or whole."""


def removal_data(removal: Removal, *, last_ts: int) -> bytes:
    """Return the ``data`` of a REMOVE row; ``last_ts`` is the time of the stream's last message, removed or not."""
    shown = {"ranges": removal.ranges, "reason": removal.reason, "erase": removal.erase, "last_ts": last_ts}
    return json.dumps(shown, separators=(",", ":")).encode()


def read_removal(data: bytes) -> tuple[Removal, int]:
    """Return the removal of a REMOVE row, and its ``last_ts`` (ns; 0 when it is not known)."""
    shown: dict[str, Any] = json.loads(data)
    ranges = [(int(first), int(last)) for first, last in shown["ranges"]]
    return Removal(ranges, str(shown["reason"]), bool(shown["erase"])), int(shown.get("last_ts", 0))


def stream_data(config: StreamConfig, created_ns: int, *, restored: str = "") -> bytes:
    """Return the ``data`` of a STREAM row; ``restored``: see :func:`read_restored`."""
    shown: dict[str, Any] = {"config": config.as_json(), "created_ns": created_ns}
    if restored:
        shown["restored"] = restored
    return json.dumps(shown, separators=(",", ":")).encode()


def read_restored(data: bytes) -> str:
    """Return whether a STREAM row's stream comes from a backup: empty, ``BEGUN`` or ``DONE``."""
    return str(json.loads(data).get("restored", ""))


def may_skip(data: bytes) -> bool:
    """Whether a STREAM row's stream may have gaps between its sequences: mirrors and restored ones do."""
    shown = json.loads(data)
    return bool(shown["config"].get("mirror")) or "restored" in shown


def read_stream(data: bytes) -> tuple[StreamConfig, int]:
    """Return configuration and creation time (ns) of a STREAM row."""
    shown: dict[str, Any] = json.loads(data)
    return StreamConfig.from_json(shown["config"]), int(shown["created_ns"])


def event_row(
    kind: Kind, incarnation: tuple[str, int], *, place: Sequence[int], ts_ns: int, data: bytes, subject: str = ""
) -> Row:
    """Return an event row of a stream (name and id); ``subject`` is the consumer's name in a consumer's rows.

    ``place`` is the stream's sequence, the event's number and the stream's first sequence after it.
    """
    seq, event_no, first_seq = place
    return Row(
        *incarnation, seq, event_no, kind.value, subject, ts_ns, None, first_seq, 0, None, data,
        crc=checksum(subject, None, data),
    )  # fmt: skip


def ranges_of(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending sequences as inclusive ranges of neighbours."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges
