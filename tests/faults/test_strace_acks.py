"""An acknowledgement leaves only after file, folder, log entry and log folder are fsynced: seen in the system calls."""

import asyncio
import json
import random
import shutil
from pathlib import Path

import pytest

from tests.faults.kill_gateway import create_stream
from tests.faults.publishers import PREFIX, Publishers
from tests.faults.strace_acks import STRACE, acks, calls, read_trace, too_early
from tests.servers import gateway, nats_server
from tests.wire import Wire

_LOAD_SECONDS = 1.5
_LONE = 20


async def _load(url: str) -> tuple[int, int]:
    """A lone publisher, then many at once; gives how many acknowledgements came and the last sequence."""
    async with Wire.open(url) as wire:
        await create_stream(wire)
        for number in range(_LONE):
            reply = await wire.ask(f"{PREFIX}.1", f"lone {number}".encode())
            assert reply is not None
            assert json.loads(reply.payload)["seq"] == number + 1
        publishers = Publishers(wire, workers=32, rng=random.Random(1))
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(publishers.run())
            await asyncio.sleep(_LOAD_SECONDS)
            publishers.stop()
        return _LONE + len(publishers.history.acked), max(seq for _, seq in publishers.history.acked)


def test_fsyncs_before_every_acknowledgement(tmp_path: Path) -> None:
    """No acknowledgement in the whole trace left before its commit was durable."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace_file = tmp_path / "trace"
    with nats_server(tmp_path / "hub", leaf=True) as hub:
        command = (*STRACE, "-o", str(trace_file))
        with gateway(hub, tmp_path / "data", prefix=command) as running:
            acknowledged, _ = asyncio.run(_load(hub.url))
    trace = read_trace(trace_file, running.child.pid)
    assert len({ack.seq for ack in acks(trace)}) >= acknowledged, "the trace does not show every acknowledgement"
    assert too_early(trace, tmp_path / "data" / "journal") == []


JOURNAL = "/d/journal"
SOUND = f"""\
1 openat(5<{JOURNAL}>, "a.parquet", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0644) = 7<{JOURNAL}/a.parquet>
1 openat(6<{JOURNAL}/_delta_log>, ".", O_WRONLY|O_CLOEXEC|O_TMPFILE, 0644) = 8<{JOURNAL}/_delta_log/#77>(deleted)
1 fsync(7<{JOURNAL}/a.parquet>) = 0
1 fsync(5<{JOURNAL}>) = 0
2 fsync(8<{JOURNAL}/_delta_log/#77>(deleted) <unfinished ...>
1 write(2</dev/null>, "x", 1) = 1
2 <... fsync resumed>) = 0
1 linkat(AT_FDCWD</>, "/proc/self/fd/8", 6<{JOURNAL}/_delta_log>, "00000000000000000000.json", AT_SYMLINK_FOLLOW) = 0
1 fsync(6<{JOURNAL}/_delta_log>) = 0
1 sendto(9<socket:[1]>, "LMSG _INBOX.1 22\\r\\n{{\\"stream\\":\\"S\\",\\"seq\\":1}}\\r\\n", 40, 0, NULL, 0) = 40
"""


def _journal(folder: Path) -> Path:
    """A journal with one log entry that holds sequence 1."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    actions = (
        {"commitInfo": {"silt": {"watermarks": {"S": {"seq": 1}}}}},
        {"add": {"path": "a.parquet"}},
    )
    (log / "00000000000000000000.json").write_text("\n".join(json.dumps(action) for action in actions))
    return folder


def _problems(folder: Path, trace: str) -> list[str]:
    journal = _journal(folder / "journal")
    return too_early(list(calls(trace.replace(JOURNAL, str(journal)).splitlines())), journal)


def test_sound_trace_is_accepted(tmp_path: Path) -> None:
    """The order that the journal writes in, with a nameless log entry and a split call."""
    assert _problems(tmp_path, SOUND) == []


@pytest.mark.parametrize("missing", ["1 fsync(7<", "1 fsync(5<", "2 fsync(8<", "1 fsync(6<"])
def test_each_missing_fsync_is_seen(tmp_path: Path, missing: str) -> None:
    """Taking any one of the four fsyncs out of the trace is noticed."""
    lines = [line for line in SOUND.splitlines() if not line.startswith(missing) and "fsync resumed" not in line]
    if missing != "2 fsync(8<":
        lines = [line for line in SOUND.splitlines() if not line.startswith(missing)]
    assert len(_problems(tmp_path, "\n".join(lines))) == 1


def test_late_fsync_is_seen(tmp_path: Path) -> None:
    """An fsync that returns after the send began is too late, and so is a folder's fsync before the link."""
    lines = SOUND.splitlines()
    assert len(_problems(tmp_path / "a", "\n".join([*lines[:8], lines[9], lines[8]]))) == 1
    assert len(_problems(tmp_path / "b", "\n".join([*lines[:7], lines[8], lines[7], lines[9]]))) == 1


def test_write_after_the_fsync_is_seen(tmp_path: Path) -> None:
    """A file that was written to after its fsync is not durable."""
    lines = SOUND.splitlines()
    late = f'1 write(7<{JOURNAL}/a.parquet>, "y", 1) = 1'
    assert len(_problems(tmp_path, "\n".join([*lines[:9], late, lines[9]]))) == 1
