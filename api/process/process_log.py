"""Log files of child processes, bounded in size."""

from pathlib import Path
from typing import BinaryIO

from conf.limits import LOG_FILE_BYTES_MAX


class ProcessLog:
    """One log file; beyond ``bytes_max`` it is renamed to ``<name>.1``, replacing the one before."""

    def __init__(self, path: Path, *, bytes_max: int = LOG_FILE_BYTES_MAX) -> None:
        self.path = path
        self._bytes_max = bytes_max
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Append ``data``; an error of the disk loses log text and raises nothing."""
        try:
            if self._file.tell() + len(data) > self._bytes_max:
                self._rotate()
            self._file.write(data)
        except OSError:
            return

    def tail(self, bytes_max: int = 4000) -> str:
        """Return the last ``bytes_max`` bytes as text."""
        return self.path.read_bytes()[-bytes_max:].decode(errors="replace")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        self.path.replace(self.path.with_name(self.path.name + ".1"))
        self._file = self.path.open("ab", buffering=0)
