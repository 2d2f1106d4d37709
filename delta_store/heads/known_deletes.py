"""The newest commit to ``messages`` that deleted rows, as far as its log tells."""

from collections.abc import Iterable, Mapping

from conf.limits import HEADS_ENTRIES_READ_MAX
from delta_store.entries.head_rows import Deletes, HeadRow
from delta_store.log.delta_log import DeltaLog, MessagesFormat
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.watermark import Op, Watermark, Watermarks


class KnownDeletes:
    """What is known of deletes; begins with the rows of ``heads``, before the newest of which there may be any."""

    def __init__(self, storage: Storage, heads: Mapping[str, HeadRow]) -> None:
        self._log = DeltaLog(storage, MessagesFormat())
        self._looked = max((row.version for row in heads.values()), default=-1)
        """The version up to which commits were looked at."""
        self._newest = Deletes(
            self._looked,
            {
                row.stream: Watermark(row.stream_id, row.watermark, row.event_no, row.first_seq)
                for row in heads.values()
            },
        )

    def up_to(self, version: int, marks: Watermarks, *, appended: bool) -> Deletes:
        """Return the newest delete up to a version with these watermarks; ``appended``: it is known to be an append.

        Of commits that are gone, or too many, one is taken for a delete.
        """
        commits = range(self._looked + 1, version if appended else version + 1)
        self._looked = version
        if len(commits) > HEADS_ENTRIES_READ_MAX or not self._all_read(commits):
            self._newest = Deletes(version, marks)
        return self._newest

    def _all_read(self, commits: Iterable[int]) -> bool:
        try:
            for version in commits:
                note = self._log.entry(version).note
                if note is not None and note.op is Op.LIMITS:
                    self._newest = Deletes(version, note.watermarks)
        except NotStored:
            return False
        return True
