"""The newest payloads in memory, bounded by bytes, so that most reads touch no file. Pure.

Groups are kept as they were committed, column by column, so that adding one costs next to nothing; the oldest group
leaves first. A message is found by bisection over its stream's groups. A removed message stays here until its group
leaves: the index knows what is live, this only holds bytes.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from itertools import compress

from delta_store.values.records import Kind, RowColumns
from delta_store.values.stream_message import MessageRun, StreamMessage

ROW_BYTES = 200
"""Memory of a row besides payload and headers, about."""
_Key = tuple[str, int]


class _Block:
    """One group's rows, with each stream's span of sequences."""

    __slots__ = ("_places", "bytes", "dense", "rows", "streams")

    def __init__(self, rows: RowColumns, size: int) -> None:
        self.rows = rows
        self.bytes = size
        self.streams = _spans(rows)
        (first, last), *others = self.streams.values()
        self.dense = not others and last - first + 1 == len(rows.seq)
        """Whether the rows are neighbouring messages of one stream."""
        self._places: dict[tuple[str, int, int], int] | None = None

    def message(self, key: _Key, seq: int, span: tuple[int, int]) -> StreamMessage | None:
        """Return the stream's message of this sequence, or None."""
        rows = self.rows
        if self.dense:
            place: int | None = seq - span[0]
        else:
            place = self._find(key, seq)
        if place is None:
            return None
        return StreamMessage(rows.subject[place], seq, rows.ts_ns[place], rows.headers[place], rows.data[place])

    def _find(self, key: _Key, seq: int) -> int | None:
        if self._places is None:
            rows = self.rows
            columns = zip(rows.stream, rows.stream_id, rows.seq, strict=True)
            self._places = {key: place for place, key in enumerate(columns)}
        return self._places.get((*key, seq))


class _Stream:
    """The blocks that hold messages of one stream, oldest first."""

    __slots__ = ("blocks", "lasts", "spans")

    def __init__(self) -> None:
        self.lasts: list[int] = []
        self.spans: list[tuple[int, int]] = []
        self.blocks: list[_Block] = []


class TailCache:
    """The newest messages of all streams within ``bytes_max``. Not thread-safe: its owner's loop uses it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._streams: dict[_Key, _Stream] = {}
        self._blocks: deque[_Block] = deque()
        self.bytes = 0
        """Memory of the cached groups, about."""

    def add(self, rows: RowColumns, *, payload_bytes: int | None = None) -> None:
        """Add a group of rows; ``payload_bytes`` (payloads and headers) is counted when not given.

        The rows must not change any more. Sequences of a stream only grow; a group that goes back is skipped.
        """
        rows = _messages(rows)
        if not len(rows):
            return
        if payload_bytes is None:
            payload_bytes = sum(map(len, rows.data)) + sum(len(block) for block in rows.headers if block)
        block = _Block(rows, payload_bytes + ROW_BYTES * len(rows))
        self._blocks.append(block)
        self.bytes += block.bytes
        for key, span in block.streams.items():
            stream = self._streams.setdefault(key, _Stream())
            if stream.lasts and span[0] <= stream.lasts[-1]:
                continue
            stream.lasts.append(span[1])
            stream.spans.append(span)
            stream.blocks.append(block)
        while self.bytes > self._bytes_max and self._blocks:
            self._drop(self._blocks.popleft())

    def get(self, stream: str, stream_id: int, seq: int) -> StreamMessage | None:
        """Return the message; None when it is not in memory."""
        key = (stream, stream_id)
        held = self._streams.get(key)
        if held is None:
            return None
        at = bisect_left(held.lasts, seq)
        if at == len(held.lasts) or seq < held.spans[at][0]:
            return None
        return held.blocks[at].message(key, seq, held.spans[at])

    def run(self, stream: str, stream_id: int, seqs: Iterable[int]) -> list[StreamMessage]:
        """Return the messages of ascending sequences up to the first that is not in memory."""
        found: list[StreamMessage] = []
        add = found.append
        key = (stream, stream_id)
        held = self._streams.get(key)
        if held is None:
            return found
        span, block = (0, -1), None
        for seq in seqs:
            if block is None or seq > span[1]:
                at = bisect_left(held.lasts, seq)
                if at == len(held.lasts):
                    break
                span, block = held.spans[at], held.blocks[at]
            message = block.message(key, seq, span) if seq >= span[0] else None
            if message is None:
                break
            add(message)
        return found

    def span(self, stream: str, stream_id: int, seqs: range) -> MessageRun | None:
        """Return the messages of neighbouring sequences up to the first that is not in memory, as columns.

        None where groups hold other streams' rows between them: use :meth:`run` then.
        """
        held = self._streams.get((stream, stream_id))
        if held is None or not seqs:
            return None
        at = bisect_left(held.lasts, seqs[0])
        parts: list[RowColumns] = []
        places: list[slice] = []
        wanted, stop = seqs[0], seqs[-1] + 1
        while at < len(held.lasts) and wanted < stop:
            (first, last), rows = held.spans[at], held.blocks[at].rows
            if wanted < first or not held.blocks[at].dense:
                break
            parts.append(rows)
            places.append(slice(wanted - first, min(stop, last + 1) - first))
            wanted, at = min(stop, last + 1), at + 1
        if not parts:
            return None
        columns = []
        for name in ("subject", "seq", "ts_ns", "headers", "data"):
            column = getattr(parts[0], name)[places[0]]
            for rows, place in zip(parts[1:], places[1:], strict=True):
                column += getattr(rows, name)[place]
            columns.append(column)
        return MessageRun(tuple(columns))

    def clear(self) -> None:
        """Drop everything."""
        self._streams.clear()
        self._blocks.clear()
        self.bytes = 0

    def _drop(self, block: _Block) -> None:
        """Drop the oldest block: it is the first of each of its streams."""
        self.bytes -= block.bytes
        for key in block.streams:
            held = self._streams[key]
            if not held.blocks or held.blocks[0] is not block:
                continue
            del held.blocks[0], held.spans[0], held.lasts[0]
            if not held.blocks:
                del self._streams[key]


def _messages(rows: RowColumns) -> RowColumns:
    """Return the message rows; events mostly stand behind them."""
    kinds, message = rows.kind, Kind.MESSAGE.value
    number = kinds.count(message)
    if number == len(kinds):
        return rows
    if kinds[:number].count(message) == number:
        return RowColumns(*(getattr(rows, name)[:number] for name in RowColumns.__slots__))
    chosen = [kind == message for kind in kinds]
    return RowColumns(*(list(compress(getattr(rows, name), chosen)) for name in RowColumns.__slots__))


def _spans(rows: RowColumns) -> dict[_Key, tuple[int, int]]:
    """Return the first and last sequence of each stream among message rows."""
    seqs = rows.seq
    if rows.stream_id.count(rows.stream_id[0]) == len(rows) and rows.stream.count(rows.stream[0]) == len(rows):
        return {(rows.stream[0], rows.stream_id[0]): (seqs[0], seqs[-1])}
    spans: dict[_Key, tuple[int, int]] = {}
    for stream, stream_id, seq in zip(rows.stream, rows.stream_id, seqs, strict=True):
        key = (stream, stream_id)
        spans[key] = (spans[key][0], seq) if key in spans else (seq, seq)
    return spans
