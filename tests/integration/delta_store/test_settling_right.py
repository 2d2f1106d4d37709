"""Who may settle: one at a time, and the next as soon as that one has ended, died, or fallen silent in a bucket."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conf.limits import LEASE_POLL_SECONDS, LEASE_QUIET_SECONDS
from tests.s3 import BUCKET, s3_server, store_variables
from tests.servers import Child

HOLDER = """
import sys
from threading import Event
from conf.data_location import data_location
from conf.settings import load_settings
from delta_store.settling.settling_right import settling_right

data, stop = data_location(sys.argv[1]).with_settings(load_settings().storage), Event()
with settling_right(data, stop, stands_by=True) as lost:
    print("holds", flush=True)
    stop.wait()
print("lost", lost.is_set(), flush=True)
"""
TAKEN_OVER_SECONDS = LEASE_QUIET_SECONDS + LEASE_POLL_SECONDS + 3.5
"""Of a holder that stopped right after a beat, and as much again for a machine with other work."""
_HOLDS = re.compile(r"^holds", re.MULTILINE)
_STANDS_BY = re.compile(r'^{"answering": true, "holder": "process (\d+)', re.MULTILINE)
_LOST = re.compile(r"^lost True", re.MULTILINE)
MakeHolder = Callable[[str], Child]


@contextmanager
def holders(place: str, folder: Path, env: dict[str, str]) -> Iterator[tuple[Child, Child]]:
    """One that has the right, and one that stands by."""
    command = [sys.executable, "-c", HOLDER, place]
    first, second = (Child(command, folder / f"{name}.log", env) for name in ("first", "second"))
    try:
        first.start()
        first.wait_log(_HOLDS)
        second.start()
        assert int(second.wait_log(_STANDS_BY)[1]) == first.pid
        assert "holds" not in second.log.read_text()
        yield first, second
    finally:
        for child in (first, second):
            child.kill()


def test_a_folder_goes_to_who_stands_by_when_its_settle_job_dies(tmp_path: Path) -> None:
    """The kernel releases the lock of a process that is killed; one that is merely stopped keeps it."""
    with holders(str(tmp_path / "data"), tmp_path, {}) as (first, second):
        first.kill()
        second.wait_log(_HOLDS, seconds=TAKEN_OVER_SECONDS)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_bucket_goes_to_who_stands_by(tmp_path: Path, end: signal.Signals) -> None:
    """Whether the first dies or sleeps; woken, it learns that it has lost the right, and who took it keeps it."""
    with (
        s3_server() as server,
        holders(f"s3://{BUCKET}/right", tmp_path, store_variables(server.url)) as (first, second),
    ):
        assert first.process is not None
        first.process.send_signal(end)
        second.wait_log(_HOLDS, seconds=TAKEN_OVER_SECONDS)
        if end is signal.SIGSTOP:
            first.process.send_signal(signal.SIGCONT)
            first.wait_log(_LOST)
        assert second.alive()
