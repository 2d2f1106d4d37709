"""How long branches and a rewind of a large settled stream take, and what they add to the disk.

``python -m tests.benchmarks.branching FOLDER --messages 10000000`` prints a line of JSON for each.
The stream lies as compaction leaves it, behind it some batches as the settle job writes them. Branches are asked for
of a running ``silt up``, now and at a point that a batch ended with, and time runs from the request to the reply. Bytes
added are those that the file system says are used more, which on one that shares blocks (XFS, btrfs) is little.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from conf.clock import SystemClock
from delta_store.entries.settled_file import encode
from delta_store.entries.staged_file import StagedFile, Writing, staged_path
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark
from tests.benchmarks.sql import settled_tables
from tests.groups import columns, open_journal
from tests.servers import silt_up
from tests.staged import open_owner, settle
from tests.tables import History
from tests.wire import Wire

BATCHES: Final = 20
BATCH_ROWS: Final = 5_000
_REWOUND: Final = 50_000
_SECONDS_MAX: Final = 600


def write_stream(data: Path, *, messages: int, subjects: int) -> None:
    """Write a settled stream ``S``: most of it compacted, the last :data:`BATCHES` batches not yet."""
    history = History()
    created = history.create()
    journal = open_journal(data / "journal")
    journal.commit(columns([created]))
    owner = open_owner(LocalStorage(data / "messages"), SystemClock())
    settle(owner, [created])
    compacted = messages - BATCHES * BATCH_ROWS
    mark = Watermark(history.stream_id, compacted, created.event_no, 1)
    _append(owner, settled_tables(history.stream_id, range(1, compacted + 1), subjects), mark)
    for first in range(compacted + 1, messages + 1, BATCH_ROWS):
        last = first + BATCH_ROWS - 1
        rows = settled_tables(history.stream_id, range(first, last + 1), subjects, recent=True)
        _append(owner, rows, mark := mark._replace(seq=last))
    journal.truncate({"S": mark.position}, relies_on=owner.snapshot.version)


def _append(owner: SettledOwner, tables: Iterator[pa.Table], mark: Watermark) -> None:
    writing, files = Writing(owner.epoch, owner.note.batch + 1), []
    for number, rows in enumerate(tables):
        file = encode(rows)
        place = ("S", rows["subject_partition"][0].as_py())
        path = staged_path(writing, *place, number=number, unique="made")
        owner.storage.write(Blob(path, file.body))
        files.append(StagedFile(path, *place, file.body.size, file.rows, file.checksum, file.stats))
    total = sum(file.rows for file in files)
    claim = Claim(owner.snapshot.rows + total, {"S": total})
    owner.append(files, CommitNote(Op.APPEND, {"S": mark}, writing.batch, claim))


async def measure(url: str, data: Path, messages: int, repetitions: int) -> list[dict[str, Any]]:
    """Ask for the branches and a rewind of ``S``; say of each how long it took and what it added."""
    found = []
    async with Wire.open(url) as wire:
        await _settling(wire)
        for number in range(repetitions):
            for what, point in (("now", None), ("batch", messages - 10 * BATCH_ROWS), ("between", messages - 77_777)):
                body: dict[str, Any] = {"name": f"B{number}-{what}"}
                asked = ("BRANCH", body | ({"silt_as_of": point} if point else {}))
                found.append({"what": f"branch {what}", **await _asked(wire, data, *asked)})
                assert found[-1]["messages"] == (point or messages), found[-1]
        rewind = ("REWIND", {"silt_as_of": messages - _REWOUND, "force": True})
        found.append({"what": "rewind", **await _asked(wire, data, *rewind)})
    return found


async def _settling(wire: Wire) -> None:
    """Wait for the settle job."""
    while json.loads((await wire.ask("$JS.API.SETTLING", b"")).payload).get("state") != "settling":  # noqa: ASYNC110
        await asyncio.sleep(0.2)


async def _asked(wire: Wire, data: Path, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    used = _used(data)
    began, now = (
        time.perf_counter(),
        wire.ask(f"$JS.API.STREAM.{verb}.S", json.dumps(body).encode(), seconds=_SECONDS_MAX),
    )
    reply = json.loads((await now).payload)
    seconds = time.perf_counter() - began
    assert "error" not in reply, reply
    os.sync()
    told = {"messages": reply["state"]["messages"]} if "state" in reply else {"removed": reply.get("removed")}
    return {"seconds": round(seconds, 2), **told, "added_mb": round((_used(data) - used) / 1e6, 1)}


def _used(data: Path) -> int:
    free = os.statvfs(data)
    return (free.f_blocks - free.f_bfree) * free.f_frsize


def main() -> None:
    """Measure what was asked for, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--subjects", type=int, default=1_000)
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    data = options.folder / "data"
    if not data.exists():
        write_stream(data, messages=options.messages, subjects=options.subjects)
    with silt_up(options.folder) as running:
        for one in asyncio.run(measure(running.url, data, options.messages, options.repetitions)):
            sys.stdout.write(json.dumps(one | {"load": os.getloadavg()[0]}) + "\n")
    for line in (options.folder / "silt-up.log").read_text().splitlines():
        if "a branch" in line:
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
