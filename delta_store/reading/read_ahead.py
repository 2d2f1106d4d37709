"""Reads of old messages one after the other: what comes next is read with them. Pure, and bounded by bytes.

A stream that is read in ascending order asks a file for one message after the other, and a file gives a thousand at
the price of one. Whether a message is live is not decided here; messages never change, so what is kept never ages.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from delta_store.values.stored_message import StoredMessage

AHEAD_MESSAGES: Final = 2048
"""Most messages that are read on top of those asked for."""
AHEAD_BYTES: Final = 4 * 1024 * 1024
"""What they may come to, going by the size of the last ones read."""
_NEAR: Final = 64
"""Distance from the last message read at which the next one counts as reading on."""
_STREAMS_KEPT: Final = 8
"""Streams of which the newest read-ahead is kept."""
_ROW_BYTES: Final = 100


class ReadAhead:
    """The last messages read of a few streams. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[int, dict[int, StoredMessage]] = OrderedDict()
        self._last: dict[int, tuple[int, int]] = {}
        """Per stream id: the last sequence read, and bytes of a message."""

    def get(self, stream_id: int, seq: int) -> StoredMessage | None:
        """The message, if it was read lately."""
        held = self._kept.get(stream_id)
        return held.get(seq) if held is not None else None

    def run(self, stream_id: int, seqs: Iterable[int]) -> list[StoredMessage]:
        """The messages of ascending sequences up to the first that was not read lately."""
        found: list[StoredMessage] = []
        held = self._kept.get(stream_id)
        if held is not None:
            for seq in seqs:
                message = held.get(seq)
                if message is None:
                    break
                found.append(message)
        return found

    def further(self, stream_id: int, seqs: Sequence[int]) -> range:
        """Sequences worth reading behind the ascending ``seqs``: none unless the stream is being read on."""
        last = self._last.get(stream_id)
        if last is None or not 0 < seqs[0] - last[0] <= _NEAR:
            return range(0)
        start = seqs[-1] + 1
        return range(start, start + min(AHEAD_MESSAGES, AHEAD_BYTES // last[1]))

    def keep(self, stream_id: int, found: dict[int, StoredMessage]) -> None:
        """Take over what was read, in place of what was kept of the stream."""
        if not found:
            return
        total = sum(len(one.data) + len(one.headers or b"") for one in found.values())
        with self._lock:
            self._last[stream_id] = (max(found), total // len(found) + _ROW_BYTES)
            self._kept[stream_id] = found if total <= 2 * AHEAD_BYTES else {}
            self._kept.move_to_end(stream_id)
            while len(self._kept) > _STREAMS_KEPT:
                forgotten, _ = self._kept.popitem(last=False)
                self._last.pop(forgotten, None)
