"""Read-ahead for sequential reads of old messages. Pure, and bounded by bytes.

A stream that is read in ascending order asks a file for one message after the other, and a file returns a thousand at
the price of one. Whether a message is live is not decided here; messages never change, so the cache never goes stale.
"""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final, NamedTuple

from delta_store.values.lru import Lru
from delta_store.values.stream_message import StreamMessage

AHEAD_MESSAGES: Final = 2048
"""Most messages that are read beyond those asked for."""
AHEAD_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of them, estimated by the size of the last ones read."""
_NEAR: Final = 64
"""Distance from the last message read within which a read counts as sequential."""
_STREAMS_KEPT: Final = 8
"""Streams whose newest read-ahead is cached."""
_ROW_BYTES: Final = 100


class _Held(NamedTuple):
    """The last messages read of a stream."""

    messages: dict[int, StreamMessage]
    last_seq: int
    message_bytes: int


class ReadAhead:
    """The last messages read of a few streams. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: Lru[int, _Held] = Lru(_STREAMS_KEPT)
        """By stream id."""

    def get(self, stream_id: int, seq: int) -> StreamMessage | None:
        """Return the message, if it is cached."""
        held = self._kept.peek(stream_id)
        return held.messages.get(seq) if held is not None else None

    def run(self, stream_id: int, seqs: Iterable[int]) -> list[StreamMessage]:
        """Return the messages of ascending sequences up to the first that is not cached."""
        found: list[StreamMessage] = []
        held = self._kept.peek(stream_id)
        if held is not None:
            for seq in seqs:
                message = held.messages.get(seq)
                if message is None:
                    break
                found.append(message)
        return found

    def further(self, stream_id: int, seqs: Sequence[int]) -> range:
        """Return the sequences to read behind the ascending ``seqs``: none unless the stream is read sequentially."""
        held = self._kept.peek(stream_id)
        if held is None or not 0 < seqs[0] - held.last_seq <= _NEAR:
            return range(0)
        start = seqs[-1] + 1
        return range(start, start + min(AHEAD_MESSAGES, AHEAD_BYTES // held.message_bytes))

    def keep(self, stream_id: int, found: dict[int, StreamMessage]) -> None:
        """Replace the stream's cached messages by those just read."""
        if not found:
            return
        total = sum(len(one.data) + len(one.headers or b"") for one in found.values())
        held = _Held(found if total <= 2 * AHEAD_BYTES else {}, max(found), total // len(found) + _ROW_BYTES)
        with self._lock:
            self._kept.put(stream_id, held)
