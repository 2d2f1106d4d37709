"""Payloads by sequence, from wherever they are: memory, the journal's files, the settled files.

What is in memory is given at once on the loop; everything else goes through :meth:`Payloads.fetch`, which blocks and
belongs into a worker thread. Which sequences are live is not decided here.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from delta_store.reading.read_ahead import ReadAhead
from delta_store.reading.settled import SettledTable
from delta_store.reading.tail_cache import TailCache
from delta_store.values.records import RowColumns
from delta_store.values.stream_message import MessageRun, StreamMessage

TAIL_BYTES: Final = 128 * 1024 * 1024
_TRIES: Final = 3


class UnsettledSource(Protocol):
    """Where messages that are not settled are read: an owner's or a follower's view of the journal."""

    def current(self, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StreamMessage]:
        """Messages by sequence; those that the journal no longer holds are left out."""
        ...


class Payloads:
    """All payloads of the store; only :meth:`fetch` touches files."""

    def __init__(self, settled: SettledTable, journal: UnsettledSource, *, tail_bytes: int = TAIL_BYTES) -> None:
        self._settled = settled
        self._journal = journal
        self.tail = TailCache(tail_bytes)
        self._ahead = ReadAhead()

    def stored(self, rows: RowColumns, *, payload_bytes: int | None = None) -> None:
        """Keep rows that are durable now; they must not change any more."""
        self.tail.add(rows, payload_bytes=payload_bytes)

    def now(self, stream: str, stream_id: int, seq: int) -> StreamMessage | None:
        """The message if it is in memory."""
        return self.tail.get(stream, stream_id, seq) or self._ahead.get(stream_id, seq)

    def span_now(self, stream: str, stream_id: int, seqs: Sequence[int]) -> Sequence[StreamMessage]:
        """As :meth:`run_now`, as columns where neighbouring messages lie together in memory."""
        if len(seqs) == seqs[-1] - seqs[0] + 1:
            run = self.tail.span(stream, stream_id, range(seqs[0], seqs[-1] + 1))
            if run is not None:
                return run
        return self.run_now(stream, stream_id, seqs)

    def run_now(self, stream: str, stream_id: int, seqs: Iterable[int]) -> list[StreamMessage]:
        """The messages of ascending sequences up to the first that is not in memory."""
        wanted = list(seqs)
        found = self.tail.run(stream, stream_id, wanted)
        while len(found) < len(wanted):
            rest = wanted[len(found) :]
            more = self._ahead.run(stream_id, rest) or self.tail.run(stream, stream_id, rest)
            if not more:
                break
            found += more
        return found

    def fetch(
        self, stream: str, stream_id: int, seqs: Sequence[int], *, subjects: Iterable[str] | None = None
    ) -> dict[int, StreamMessage]:
        """The messages from files; what is in neither table is left out. Blocks; thread-safe.

        ``subjects``, when given, are those of the wanted messages and let files be passed over. Raises ``DamagedData``.
        """
        further = self._ahead.further(stream_id, seqs) if subjects is None and seqs else range(0)
        found = self._fetch(stream, stream_id, seqs, further=further, subjects=subjects)
        self._ahead.keep(stream_id, found)
        return found

    def fetch_run(self, stream: str, stream_id: int, seqs: Sequence[int]) -> MessageRun:
        """The messages of ascending sequences from files, as columns; what is in neither table is left out.

        Blocks; thread-safe. Raises ``DamagedData``.
        """
        mark = self._settled.watermarks.get(stream)
        if mark is not None and mark.stream_id == stream_id and seqs and seqs[-1] <= mark.seq:
            run = self._settled.fetch_run(stream, stream_id, seqs)
            if len(run) == len(seqs):
                return run
        found = self._fetch(stream, stream_id, seqs, further=range(0), subjects=None)
        return MessageRun.of([found[seq] for seq in seqs if seq in found])

    def _fetch(
        self, stream: str, stream_id: int, seqs: Sequence[int], *, further: range, subjects: Iterable[str] | None
    ) -> dict[int, StreamMessage]:
        """``seqs`` must be tried again while some are missing, ``further`` ones are welcome."""
        names = None if subjects is None else list(subjects)
        found: dict[int, StreamMessage] = {}
        for attempt in range(_TRIES):
            if attempt or self._settled.version < 0:
                self._settled.refresh()
            missing = [seq for seq in (*seqs, *further) if seq not in found]
            mark = self._settled.watermarks.get(stream)
            settled_seq = mark.seq if mark is not None and mark.stream_id == stream_id else 0
            settled = [seq for seq in missing if seq <= settled_seq]
            if settled:
                found |= self._settled.fetch(stream, stream_id, settled, subjects=names)
            tail = [seq for seq in missing if seq > settled_seq]
            if tail:
                found |= self._journal.current(stream, stream_id, tail)
            if all(seq in found for seq in seqs):
                break
        return found
