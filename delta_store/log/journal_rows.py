"""Reads rows from the journal's files, each file verified as a whole and each row by itself.

A few files stay in memory, decoded, for reads of messages whose payload the gateway no longer holds.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries import journal_file
from delta_store.entries.journal_file import DamagedFile
from delta_store.entries.log_entry import JournalFile
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import JournalDamaged
from delta_store.values.records import Kind, Row, RowColumns
from delta_store.values.stored_message import StoredMessage


def read_rows(storage: Storage, file: JournalFile) -> RowColumns:
    """All rows of a file; raises :class:`NotStored`, :class:`JournalDamaged`."""
    try:
        return journal_file.decode(storage.read(file.name), size=file.size, checksum=file.checksum)
    except DamagedFile as error:
        raise JournalDamaged(file.name, str(error)) from error


class FileCache:
    """Decoded files, the least recently used ones dropped first. Thread-safe."""

    def __init__(self, storage: Storage, bytes_max: int) -> None:
        self._storage, self._bytes_max = storage, bytes_max
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def fetch(self, file: JournalFile, stream_id: int, seqs: Iterable[int]) -> dict[int, Row]:
        """Those messages of the stream that the file holds, by sequence; raises as :func:`read_rows`."""
        return {row["seq"]: Row(**row) for row in self._chosen(file, stream_id, seqs).to_pylist()}

    def messages(self, file: JournalFile, stream_id: int, seqs: Iterable[int]) -> dict[int, StoredMessage]:
        """:meth:`fetch` with the columns that readers want."""
        table = self._chosen(file, stream_id, seqs)
        columns = (table[name].to_pylist() for name in StoredMessage._fields)
        return {message.seq: message for message in map(StoredMessage._make, zip(*columns, strict=True))}

    def _chosen(self, file: JournalFile, stream_id: int, seqs: Iterable[int]) -> pa.Table:
        """The rows of those messages."""
        table = self._table(file)
        own = np.flatnonzero(
            np.asarray(pc.and_(pc.equal(table["stream_id"], stream_id), pc.equal(table["kind"], Kind.MESSAGE.value)))
        )
        held = np.asarray(table["seq"])[own]
        wanted = np.asarray(list(seqs), np.int64)
        at = np.searchsorted(held, wanted)
        inside = at < len(held)
        found = at[inside][held[at[inside]] == wanted[inside]]
        return table.take(own[found])

    def _table(self, file: JournalFile) -> pa.Table:
        with self._lock:
            table = self._tables.get(file.name)
            if table is not None:
                self._tables.move_to_end(file.name)
                return table
        try:
            table = journal_file.decode_table(self._storage.read(file.name), size=file.size, checksum=file.checksum)
        except DamagedFile as error:
            raise JournalDamaged(file.name, str(error)) from error
        with self._lock:
            if self._tables.setdefault(file.name, table) is table:
                self._bytes += table.nbytes
            while self._bytes > self._bytes_max and len(self._tables) > 1:
                self._bytes -= self._tables.popitem(last=False)[1].nbytes
        return table
