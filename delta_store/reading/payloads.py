"""Payloads by sequence, wherever they are: memory, the journal's files, the settled files.

Payloads in memory are returned at once on the loop; :meth:`Payloads.fetch` reads the others, which blocks and belongs
into a worker thread. Which sequences are live is not decided here.
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
    """A source of unsettled messages: an owner's or a follower's view of the journal."""

    def current(self, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StreamMessage]:
        """Return messages by sequence; those that the journal no longer has are omitted."""
        ...


class Payloads:
    """All payloads of the store; only :meth:`fetch` and :meth:`fetch_run` touch files."""

    def __init__(self, settled: SettledTable, journal: UnsettledSource, *, tail_bytes: int = TAIL_BYTES) -> None:
        self._settled = settled
        self._journal = journal
        self.tail = TailCache(tail_bytes)
        self._ahead = ReadAhead()

    def stored(self, rows: RowColumns, *, payload_bytes: int | None = None) -> None:
        """Cache rows that are durable now; they must not change any more."""
        self.tail.add(rows, payload_bytes=payload_bytes)

    def now(self, stream: str, stream_id: int, seq: int) -> StreamMessage | None:
        """Return the message if it is in memory."""
        return self.tail.get(stream, stream_id, seq) or self._ahead.get(stream_id, seq)

    def span_now(self, stream: str, stream_id: int, seqs: Sequence[int]) -> Sequence[StreamMessage]:
        """Return messages as :meth:`run_now`, as columns where neighbouring messages lie together in memory."""
        if len(seqs) == seqs[-1] - seqs[0] + 1:
            run = self.tail.span(stream, stream_id, range(seqs[0], seqs[-1] + 1))
            if run is not None:
                return run
        return self.run_now(stream, stream_id, seqs)

    def run_now(self, stream: str, stream_id: int, seqs: Iterable[int]) -> list[StreamMessage]:
        """Return the messages of ascending sequences up to the first that is not in memory."""
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
        """Read messages from files; those in neither table are omitted. Blocks; thread-safe.

        ``subjects``, if given, are those of the messages and allow files to be skipped. Raises ``DamagedData``.
        """
        further = self._ahead.further(stream_id, seqs) if subjects is None and seqs else range(0)
        found = self._fetch(stream, stream_id, seqs, further=further, subjects=subjects)
        self._ahead.keep(stream_id, found)
        return found

    def fetch_run(self, stream: str, stream_id: int, seqs: Sequence[int]) -> MessageRun:
        """Read ascending sequences from files, as columns; those in neither table are omitted. As :meth:`fetch`."""
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
        """Read ``seqs``, with retries while some are missing, and ``further`` ones if they are there."""
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
