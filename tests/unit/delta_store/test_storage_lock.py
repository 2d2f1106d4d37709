"""One owner per data folder."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from delta_store.storage.store_lock import (
    LOCK_FILE,
    AlreadySettling,
    FolderInUse,
    FolderLock,
    StoreLocked,
    settle_lock,
    store_lock,
    up_lock,
)

ROOT = Path(__file__).resolve().parents[3]
HOLDER = (
    "import sys; from pathlib import Path; from delta_store.storage.store_lock import store_lock as L; "
    "lock = L(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); sys.stdin.read()"
)


def test_a_second_owner_is_refused_by_name(tmp_path: Path) -> None:
    """The error says which process has the folder; after its end, however it ends, the folder is free."""
    holder = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(holder, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked, match=f"in use by process {process.pid}") as caught:
            store_lock(tmp_path).acquire()
        assert caught.value.owner_pid == process.pid
        process.kill()
    with store_lock(tmp_path):
        pass


def test_a_released_folder_can_be_taken_again(tmp_path: Path) -> None:
    """The folder is made when it is missing, and the file that stays behind hinders no one."""
    folder = tmp_path / "new" / "data"
    first, second = store_lock(folder), store_lock(folder)
    first.acquire()
    with pytest.raises(StoreLocked):
        second.acquire()
    first.release()
    first.release()
    (folder / LOCK_FILE).write_text("not json")
    second.acquire()
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        first.acquire()
    second.release()


def test_a_process_started_by_the_owner_does_not_hold_the_folder(tmp_path: Path) -> None:
    """What outlives the owner must not keep the next one out."""
    lock = store_lock(tmp_path)
    lock.acquire()
    waiting = "import sys; print('up', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "close_fds": False}
    with subprocess.Popen([sys.executable, "-c", waiting], **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == b"up\n"
        lock.release()
        with store_lock(tmp_path):
            pass
        child.kill()


@pytest.mark.parametrize(
    ("lock", "taken", "text"),
    [
        (store_lock, StoreLocked, "{} is in use by process {}: stop it first, or choose another folder"),
        (settle_lock, AlreadySettling, "another settle job runs on {}"),
        (up_lock, FolderInUse, "another silt up runs on {} (process {})"),
    ],
)
def test_each_lock_says_what_is_taken(
    lock: Callable[[Path], FolderLock], taken: type[Exception], text: str, tmp_path: Path
) -> None:
    """The three locks of a folder do not meet, and each refuses in its own words."""
    with ExitStack() as held:
        for one in (store_lock, settle_lock, up_lock):
            held.enter_context(one(tmp_path))
        with pytest.raises(taken) as refused:
            lock(tmp_path).acquire()
        assert str(refused.value) == text.format(tmp_path, os.getpid())
    with lock(tmp_path):
        pass
