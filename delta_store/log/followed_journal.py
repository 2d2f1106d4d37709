"""The journal as those see it who do not own it: its log is opened at the first look, and followed from then on."""

from collections.abc import Mapping

from delta_store.log.journal_reader import SHARD, JournalReader
from delta_store.storage.open_storage import open_storage


class FollowedJournal:
    """The journal at a location, a folder or an object store's URL. Not thread-safe; it need not exist yet."""

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._location, self._options = location, dict(storage_options or {})
        self._reader: JournalReader | None = None

    def known(self) -> JournalReader:
        """Return the reader as of the last look; there is one look if there was none. Raises as :meth:`newest`."""
        return self._reader or self.newest()

    def newest(self) -> JournalReader:
        """Return the reader at the end of the log: one read where nothing was committed since the last look.

        Raises :class:`DamagedData` and :class:`StorageError`; the next look goes on from what was read before.
        """
        if self._reader is None:
            self._reader = JournalReader.read_only(open_storage(self._location, self._options), shard=SHARD)
        elif self._reader.version < 0:
            self._reader.reload()
        else:
            self._reader.catch_up()
        return self._reader
