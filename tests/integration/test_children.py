"""Child processes of the supervisor: ready, ended, killed, never orphaned; real processes throughout."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.process.child_process import ChildFailed, ChildPlan, ChildProcess
from api.process.process_log import ProcessLog
from delta_store.storage.store_lock import FolderInUse, up_lock
from tests.servers import is_running, wait_until

READY = "import json; print('noise', flush=True); print(json.dumps({'ready': True, 'port': 7}), flush=True)\n"
FOREVER = "import time\nwhile True: time.sleep(1)\n"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ProcessLog]:
    """The child's log, closed at the end."""
    log = ProcessLog(tmp_path / "test.log")
    yield log
    log.close()


def _child(log: ProcessLog, script: str) -> ChildProcess:
    return ChildProcess(ChildPlan("test", lambda _: [sys.executable, "-c", script]), log)


def test_a_child_is_ready_when_it_says_so(log: ProcessLog) -> None:
    """Other output goes to the log; the ready line's fields are handed on."""

    async def scene() -> None:
        child = _child(log, READY + FOREVER)
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            said = await child.wait_ready(10)
            await child.stop(10)
        assert said["port"] == 7

    asyncio.run(scene())
    assert "noise" in log.tail()


def test_a_child_that_ends_first_is_a_failure_with_its_last_words(log: ProcessLog) -> None:
    """The error holds the end of the log."""

    async def scene() -> None:
        child = _child(log, "raise SystemExit('no storage here')")
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            with pytest.raises(ChildFailed, match=r"(?s)ended before it was ready.*no storage here"):
                await child.wait_ready(10)

    asyncio.run(scene())


def test_a_child_may_answer_before_it_is_ready(log: ProcessLog) -> None:
    """Both lines are waited for apart; one that ends between them was never ready."""
    answering = 'print(\'{"answering": true, "opening": "1 of 2"}\', flush=True)\n'

    async def scene() -> None:
        child = _child(log, answering + "input()\n" + READY + FOREVER)
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            assert (await child.wait_answering(10))["opening"] == "1 of 2"
            with pytest.raises(ChildFailed, match="ended before it was ready"):
                await child.wait_ready(10)
        ready = _child(log, READY + FOREVER)
        await ready.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ready.run())
            assert (await ready.wait_answering(10))["port"] == (await ready.wait_ready(10))["port"] == 7
            await ready.stop(10)

    asyncio.run(scene())


def test_a_child_that_is_never_ready_is_a_failure(log: ProcessLog) -> None:
    """Waiting ends."""

    async def scene() -> None:
        child = _child(log, FOREVER)
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            with pytest.raises(ChildFailed, match="was not ready within 0 s"):
                await child.wait_ready(0.2)
            await child.stop(10)

    asyncio.run(scene())


@pytest.mark.parametrize("hurry", [False, True])
def test_a_child_that_does_not_listen_is_killed(hurry: bool, log: ProcessLog) -> None:
    """SIGTERM first; SIGKILL after the time is up, or when there is no time."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + FOREVER

    async def scene() -> int:
        child = _child(log, deaf)
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            ended = tasks.create_task(child.run())
            await child.wait_ready(10)
            rushed = asyncio.Event()
            if hurry:
                rushed.set()
            await child.stop(3600 if hurry else 0.2, hurry=rushed)
        return ended.result()

    assert asyncio.run(scene()) == -signal.SIGKILL


def test_what_a_child_started_ends_with_it(log: ProcessLog) -> None:
    """A grandchild that shares the child's session does not outlive it."""
    grandchild = f"subprocess.Popen([sys.executable, '-c', {FOREVER!r}])"
    script = f"import subprocess, sys; print({grandchild}.pid, flush=True)\n"

    async def scene() -> int:
        child = _child(log, script + READY + FOREVER)
        await child.start({})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            await child.wait_ready(10)
            pid = int(log.tail().split()[0])
            assert is_running(pid)
            await child.stop(10)
        return pid

    pid = asyncio.run(scene())
    wait_until(lambda: not is_running(pid), what="the grandchild ends")


def test_a_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    """A kill -9 of the parent leaves no child."""
    parent_script = f"""
import asyncio, sys
from pathlib import Path
from api.process.child_process import ChildPlan, ChildProcess
from api.process.process_log import ProcessLog

async def main():
    plan = ChildPlan("test", lambda said: [sys.executable, "-c", {READY + FOREVER!r}])
    child = ChildProcess(plan, ProcessLog(Path({str(tmp_path)!r}) / "test.log"))
    await child.start({{}})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(child.run())
        await child.wait_ready(10)
        print(child.pid, flush=True)

asyncio.run(main())
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_script], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_running(pid), what="the child ends")


def test_a_log_never_grows_past_its_bound(tmp_path: Path) -> None:
    """The old log is kept once, and what was written last is always there."""
    log = ProcessLog(tmp_path / "x.log", bytes_max=1000)
    for number in range(100):
        log.write(f"{number:03} {'x' * 95}\n".encode())
    log.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"x.log", "x.log.1"}
    assert max(sizes.values()) <= 1000
    assert (tmp_path / "x.log").read_text().splitlines()[-1].startswith("099")


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """The second one is refused, and told who has it; the lock ends with the block."""
    with up_lock(tmp_path), pytest.raises(FolderInUse, match=f"process {os.getpid()}"), up_lock(tmp_path):
        pass
    with up_lock(tmp_path):
        pass
