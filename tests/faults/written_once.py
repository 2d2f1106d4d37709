"""Each version of a table's log is one file that is written once: who looks again and again sees no other one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

_PAUSE_SECONDS = 0.1
_STOP_SECONDS = 10.0


class Written(NamedTuple):
    """What tells one writing of a file from another."""

    inode: int
    mtime_ns: int
    size: int


class WrittenOnce:
    """Watches the logs of both tables from a thread; a power cut begins anew, for what it tore is written again."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen: dict[Path, Written] = {}
        self.problems: list[str] = []
        self.versions = 0
        """How many files were seen."""
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    @contextmanager
    def away(self) -> Iterator[None]:
        """The disk is away and comes back without what it had not been told to keep."""
        with self._looking:
            yield
            self._seen.clear()

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            with self._looking:
                self.look()

    def look(self) -> None:
        """Compare what is there with what was there."""
        for table in ("journal", "messages"):
            for path in (self._data / table / "_delta_log").glob("*.json"):
                try:
                    stat = path.stat()
                except OSError:
                    continue
                if not stat.st_size:  # torn by a power cut: set aside and written anew
                    continue
                written = Written(stat.st_ino, stat.st_mtime_ns, stat.st_size)
                before = self._seen.setdefault(path, written)
                if before is written:
                    self.versions += 1
                elif before != written:
                    self.problems.append(f"{table}: {path.name} was written twice: {before}, then {written}")
                    self._seen[path] = written
