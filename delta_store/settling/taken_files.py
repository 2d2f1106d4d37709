"""Files of a branch's origin that the branch takes as they are: those of which every row belongs to it.

Such a file becomes one of the branch by the bytes of the other and its own columns behind them
(:mod:`delta_store.entries.parquet_graft`). So no reader has to know of branches, nothing that one stream deletes is
taken from the other, and no byte of a message that was not live at the point comes along.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from isal.isal_zlib import crc32

from delta_store.entries.parquet_graft import TAIL_BYTES, can_take, footer_bytes, graft, metadata_of
from delta_store.entries.settled_file import FILE_SCHEMA, statistics_of
from delta_store.entries.settled_log import DataFile, Int64s
from delta_store.entries.staged_file import StagedFile
from delta_store.reading.message_slice import PartFile, SlicePart
from delta_store.reading.settled_files import MessageFiles
from delta_store.reading.whole_files import belongs
from delta_store.settling.staging import FileWriter
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored


class TakenFiles:
    """The files of one table, to be taken by others of its streams."""

    def __init__(self, storage: Storage, known: Mapping[str, DataFile]) -> None:
        """``known`` are files by their paths, whose checksums need not be computed."""
        self._storage, self._known = storage, known
        self._filesystem, self._root = filesystem_of(storage.uri, storage.options)
        self._files = MessageFiles(self._filesystem, cache_bytes=0)
        self.taken = 0
        """How many were."""

    def take(
        self,
        writer: FileWriter,
        part: SlicePart,
        file: PartFile,
        evicted: Int64s,
        *,
        stream: str,
        own: Mapping[str, int],
    ) -> StagedFile | None:
        """Write a file of a part as one of another stream, with ``own`` columns; None where rows must be left out.

        Raises ``NotStored``, ``StorageFailed``, ``OSError``, and what Arrow raises for one that is damaged.
        """
        footer, size = self._footer(file.path)
        metadata = metadata_of(footer)
        if not can_take(metadata, FILE_SCHEMA.names):
            return None
        if not belongs(metadata, part, evicted, partial(self._files.sequences, f"{self._root}/{file.path}")):
            return None
        new = graft(footer, metadata, size, own)
        stats = statistics_of(new.metadata)
        if stats is None:
            return None
        checksum = crc32(new.more, self._checksum(file.path))
        self.taken += 1
        told = StagedFile("", stream, file.folder, size + len(new.more), metadata.num_rows, checksum, stats)
        return writer.put_behind(file.path, new.more, told)

    def _footer(self, path: str) -> tuple[bytes, int]:
        """Return a file's footer and its bytes."""
        try:
            source = self._filesystem.open_input_file(f"{self._root}/{path}")
        except FileNotFoundError as error:
            raise NotStored(path, "not found") from error
        with source:
            size: int = source.size()
            known = self._known.get(path)
            if size < TAIL_BYTES or (known is not None and known.size != size):
                raise NotStored(path, "not the file that was committed")
            length = footer_bytes(_read(source, size - TAIL_BYTES, TAIL_BYTES))
            return _read(source, size - TAIL_BYTES - length, length), size

    def _checksum(self, path: str) -> int:
        known = self._known.get(path)
        if known is not None and known.checksum is not None:
            return known.checksum
        return crc32(self._storage.read(path))


def _read(source: Any, start: int, length: int) -> bytes:
    source.seek(start)
    return bytes(source.read(length))
