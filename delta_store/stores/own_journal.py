"""The journal's payloads for its owner, who knows where every row is without reading the log again."""

from collections.abc import Sequence

from delta_store.journal.journal import Journal
from delta_store.values.journal_errors import JournalDamaged, ReadOvertaken
from delta_store.values.read_errors import DamagedData
from delta_store.values.stored_message import StoredMessage


class OwnJournal:
    """Reads through a claimed :class:`Journal`. Blocks; thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def current(self, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StoredMessage]:
        """Messages by sequence; those that the journal no longer holds are left out. Raises ``DamagedData``."""
        del stream  # the id says it
        try:
            return self._journal.fetch_messages(stream_id, seqs)
        except ReadOvertaken:
            return {}
        except JournalDamaged as error:
            raise DamagedData(error.file, error.reason) from error
