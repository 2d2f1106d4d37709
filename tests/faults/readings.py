"""Three independent readings of a stream: Direct Get, and delta-rs on the tables themselves."""

import json
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tests.faults.reckoning import Stored, digest
from tests.wire import Wire

_BATCH = 10_000
_ID = b"Nats-Msg-Id: "


class ReadFailed(RuntimeError):
    """The stream could not be read."""


class Refused(ReadFailed):
    """The point lies beyond the history horizon."""


async def by_direct_get(wire: Wire, stream: str, *, first: int = 1, last: int | None = None) -> dict[int, Stored]:
    """All messages from ``first`` to ``last`` (or the end), read in batches."""
    found: dict[int, Stored] = {}
    start: int | None = first
    while start is not None and (last is None or start <= last):
        start = await _one_batch(wire, stream, start, found)
    return {seq: message for seq, message in found.items() if last is None or seq <= last}


async def _one_batch(wire: Wire, stream: str, start: int, found: dict[int, Stored]) -> int | None:
    """Read one batch into ``found``; gives where to go on, None at the end."""
    inbox = wire.send(f"$JS.API.DIRECT.GET.{stream}", json.dumps({"seq": start, "batch": _BATCH}).encode())
    try:
        while True:
            reply = await wire.receive(inbox, seconds=30)
            if reply is None:
                raise ReadFailed(f"no answer to a batch from {start}")
            if reply.status.startswith("404"):
                return None
            if reply.status.startswith("204"):
                return max(found) + 1 if int(reply.get("Nats-Num-Pending") or 0) else None
            if reply.status:
                raise ReadFailed(f"{reply.status} to a batch from {start}")
            message = Stored(reply.get("Nats-Subject") or "", digest(reply.payload), reply.get("Nats-Msg-Id"))
            found[int(reply.get("Nats-Sequence") or 0)] = message
    finally:
        wire.forget(inbox)


def by_delta(data: Path, stream: str) -> dict[int, Stored]:
    """The same from the tables, by delta-rs; a sequence that both tables have must be the same message in both."""
    found: dict[int, Stored] = {}
    for name in ("messages", "journal"):
        if not (data / name / "_delta_log").exists():
            continue
        for seq, message in _rows(DeltaTable(str(data / name)).to_pyarrow_table(), stream):
            if found.setdefault(seq, message) != message:
                raise ReadFailed(f"sequence {seq} is in the tables twice with different content")
    return found


def journal_duplicates(data: Path, stream: str) -> list[int]:
    """Sequences that the journal holds more than once."""
    seen: set[int] = set()
    twice = []
    for seq, _ in _rows(DeltaTable(str(data / "journal")).to_pyarrow_table(), stream):
        if seq in seen:
            twice.append(seq)
        seen.add(seq)
    return twice


def _rows(table: pa.Table, stream: str) -> list[tuple[int, Stored]]:
    return [
        (row["seq"], Stored(row["subject"], digest(row["data"]), _message_id(row["headers"])))
        for row in table.select(["stream", "kind", "seq", "subject", "headers", "data"]).to_pylist()
        if row["kind"] == "message" and row["stream"] == stream
    ]


def _message_id(headers: bytes | None) -> str | None:
    for line in (headers or b"").split(b"\r\n"):
        if line.startswith(_ID):
            return line.removeprefix(_ID).decode()
    return None
