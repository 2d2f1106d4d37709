"""Journal rows that are not messages, and their JSON: streams created, updated, deleted, messages removed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from delta_store.config.stream_config import StreamConfig
from delta_store.values.records import Kind, Row, checksum

BEGUN: Final = "begun"
DONE: Final = "done"
"""What a STREAM row says of a stream that comes from a backup or another one: not whole yet, or whole."""
CARRIED: Final = "carried"
"""The same as ``DONE`` of a stream whose first messages never were in the journal: the settle job copied them."""


def stream_data(
    config: StreamConfig,
    created_ns: int,
    *,
    restored: str = "",
    resume: str = "",
    base: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the ``data`` of a STREAM row; ``restored``, ``resume``: see :func:`read_restored`.

    ``base`` names the settled rows of another stream that this one begins with.
    """
    shown: dict[str, Any] = {"config": config.as_json(), "created_ns": created_ns}
    if restored:
        shown["restored"] = restored
    if resume:
        shown["resume"] = resume
    if base is not None:
        shown["base"] = base
    return json.dumps(shown, separators=(",", ":")).encode()


def read_restored(data: bytes) -> tuple[str, str]:
    """Return whether a STREAM row's stream comes from a backup or another one: empty, or one of the words above.

    And by which word of its sender a restore goes on that broke off; empty where it begins anew.
    """
    shown = json.loads(data)
    return str(shown.get("restored", "")), str(shown.get("resume", ""))


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
