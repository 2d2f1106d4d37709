"""Which version of ``messages`` settled which messages of a stream: sequence, time and version of one another."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from delta_store.reading.point_in_time import View
from delta_store.reading.settled import SettledTable
from delta_store.values.read_errors import FileGone
from delta_store.values.settling import Settling
from delta_store.values.watermark import Op

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def settlings(settled: SettledTable, view: View, *, before: int | None = None) -> Iterator[Settling]:
    """Iterate over the versions that settled messages of a stream, newest first, as far as the log goes back.

    ``before``: only versions before this one.
    """
    newest = view.settled.version if before is None else min(before - 1, view.settled.version)
    for version in range(newest, settled.log.oldest_entry() - 1, -1):
        try:
            entry = settled.log.entry(version)
        except FileGone:
            return
        files = [one for one in entry.added if one.stream == view.stream and one.has_messages]
        files = [one for one in files if one.stream_ids[1] >= view.stream_id]
        if files and entry.note is not None and entry.note.op is Op.APPEND:
            yield Settling(
                version,
                _EPOCH + timedelta(milliseconds=entry.timestamp_ms),
                min(one.seq[0] for one in files),
                max(one.seq[1] for one in files),
                min(one.ts_ns[0] for one in files),
                max(one.ts_ns[1] for one in files),
            )
