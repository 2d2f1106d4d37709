"""Messages that have left a stream, and its newest files, since somebody began to read it."""

from collections.abc import Sequence

from delta_store.reading.settled import SettledTable
from delta_store.values.stream_message import MessageRun


def read_removed(settled: SettledTable, stream: str, stream_id: int, seqs: Sequence[int]) -> MessageRun:
    """Return those of ascending sequences that the table had when it settled the last of them. Blocks.

    Raises ``PastHorizon``, ``FileGone`` or ``DamagedData``.
    """
    mark = settled.refresh().watermarks.get(stream)
    reached = mark.seq if mark is not None and mark.stream_id == stream_id else 0
    wanted = [seq for seq in seqs if seq <= reached]
    if not wanted:
        return MessageRun.of(())
    base = settled.log.at(settled.append_version_for(stream, stream_id, wanted[-1]))
    found = settled.fetch_from(base, stream, stream_id, wanted)
    return MessageRun.of([found[seq] for seq in wanted if seq in found])
