"""A backup's folder: the archive and the note beside it as the nats CLI's, and increments that follow it.

A note is written last, so an archive without one was not finished.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from consumers.client.errors import TransferFailed

_PIECE_BYTES: Final = 128 * 1024


class NoBackup(Exception):
    """The folder holds none, or one that was not finished; the text says which."""


class _Files(NamedTuple):
    """The names of an archive and its note."""

    data: str
    note: str


def _files(number: int) -> _Files:
    """Return the names of the whole archive (0), or of an increment."""
    return _Files(f"increment-{number:04}.s2", f"increment-{number:04}.json") if number else _WHOLE


_WHOLE: Final = _Files("stream.tar.s2", "backup.json")


class BackupFolder:
    """The archives in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_new(self) -> bool:
        """Whether it is empty or not there."""
        return not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))

    @property
    def size(self) -> int:
        """Bytes of all archives."""
        return sum(data.stat().st_size for data in self._data(len(self.notes())))

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes, the whole archive's first, each with its stream's configuration and state.

        Raises :class:`NoBackup`.
        """
        found: list[dict[str, Any]] = []
        try:
            while not found or (self.path / _files(len(found)).note).exists():
                files = _files(len(found))
                note = json.loads((self.path / files.note).read_bytes())
                if not (self.path / files.data).stat().st_size:
                    raise NoBackup(f"{self.path / files.data} is empty: the backup was not finished")
                _ = note["config"]["name"], note["state"]["last_seq"]
                found.append(note)
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise NoBackup(f"{self.path} is no backup: {error}") from None
        return found

    async def add(self, number: int, chunks: AsyncIterator[bytes], note: dict[str, Any]) -> None:
        """Write the whole archive (0), or an increment; it is durable, and its note is there, when this returns."""
        self.path.mkdir(parents=True, exist_ok=True)
        files = _files(number)
        with _part(self.path / files.data) as file:
            async for chunk in chunks:
                file.write(chunk)
        with _part(self.path / files.note) as file:
            file.write(json.dumps(note, indent=2).encode())

    async def content(self, number: int) -> AsyncIterator[bytes]:
        """Iterate over the one archive that ``number`` archives make up. Raises :class:`TransferFailed`."""
        from delta_store.archive.archive_chain import merged_archive
        from delta_store.archive.bad_archive import BadArchive

        parts = [_pieces(path) for path in self._data(number)]
        try:
            for piece in parts[0] if len(parts) == 1 else merged_archive(parts):
                for start in range(0, len(piece), _PIECE_BYTES):
                    yield piece[start : start + _PIECE_BYTES]
        except BadArchive as bad:
            raise TransferFailed(str(bad)) from None

    def _data(self, number: int) -> list[Path]:
        return [self.path / _files(place).data for place in range(number)]


@contextmanager
def _part(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when it is written, whole and durably."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
