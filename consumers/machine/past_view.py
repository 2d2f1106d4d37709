"""A past state of a stream as its consumers see it: nothing comes to it, and only what is erased leaves it."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np

from delta_store.index.stream_index import StreamIndex

_UNKNOWN: Final = -1


class PastPlace(NamedTuple):
    """A fixed point in the order of a stream's rows."""

    seq: int
    """The last message that was stored."""
    event_no: int
    """Number of the last event behind that message which had happened; 0 for none."""


class PastView:
    """The :class:`~consumers.machine.stream_view.StreamView` of a stream at a place; it is read after it was made.

    Messages that are erased meanwhile are not in it when it opens.
    """

    __slots__ = ("_erased", "_hearers", "_index", "is_open", "name", "place", "stream_id")

    retention: Final = "limits"
    """Whatever the stream's retention is: its messages are those of now."""

    def __init__(
        self, name: str, stream_id: int, place: PastPlace, hearers: list[Callable[[Iterable[int]], None]]
    ) -> None:
        """``hearers`` are told of the sequences that are erased from the stream, until :meth:`leave`."""
        self.name = name
        self.stream_id = stream_id
        self.place = place
        self.is_open = False
        """Whether the messages are known; nothing is delivered before."""
        self._index = StreamIndex()
        self._index.restore_bounds(first_seq=0, last_seq=place.seq, last_ts=0)
        self._erased: set[int] = set()
        self._hearers = hearers
        hearers.append(self._erase)

    @property
    def index(self) -> StreamIndex:
        """The messages that were live then, without those erased since."""
        return self._index

    @property
    def durable_seq(self) -> int:
        """The last sequence of then."""
        return self.place.seq

    @property
    def removals(self) -> int:
        """A number that changes whenever messages are erased."""
        return self._index.last_seq - self._index.msgs if self.is_open else _UNKNOWN

    def content_size(self, seq: int) -> int:
        """Return the bytes of headers and payload of a message."""
        return self._index.content_size(seq)

    def open(self, index: StreamIndex) -> None:
        """Begin with the messages that were live then, which are the view's own from here on."""
        self._index, self.is_open = index, True
        self._erase(self._erased)
        self._erased = set()

    def leave(self) -> None:
        """Hear no more of what is erased."""
        if self._erase in self._hearers:
            self._hearers.remove(self._erase)

    def _erase(self, seqs: Iterable[int]) -> None:
        if not self.is_open:
            self._erased.update(seqs)
            return
        gone = np.unique(np.fromiter(seqs, np.int64))
        if len(gone):
            live = self._index.live.sequences(int(gone[0]), int(gone[-1]))
            self._index.remove_many(np.intersect1d(live, gone, assume_unique=True))
