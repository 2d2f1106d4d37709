"""Plans of reads as values: made from a request and the index, carried out elsewhere. Pure.

A plan holds what was live, or the past point asked for, when it was made.
:class:`delta_store.reading.store_reader.StoreReader` carries it out and reports what has changed since.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, NamedTuple

from delta_store.index.matching import count_matching, iter_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter

_FEW: Final = 32
_UNBOUNDED: Final = (1 << 63) - 1


class ReadPlan(NamedTuple):
    """Messages of one incarnation of a stream to read."""

    stream: str
    stream_id: int
    seqs: Sequence[int]
    """Live when the plan was made, ascending."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The live sequences that match, looked up step by step: the index may change between two steps."""

    index: StreamIndex
    chosen: SubjectFilter | None
    start: int
    up_to: int
    """The stream's last sequence when the plan was made: newer ones are not read."""

    def count(self, from_seq: int) -> int:
        """Count the live messages that match from a sequence on, newer ones included."""
        return count_matching(self.index, self.chosen, from_seq) if from_seq <= self.index.last_seq else 0

    def steps(self, size: int, most: int) -> Iterator[list[int]]:
        """Iterate over the first ``most`` sequences, ``size`` at a time."""
        start, left = self.start, most
        while left > 0:
            count = min(size, left)
            few = count <= _FEW and self.chosen is None
            matching = self._few(start) if few else iter_matching(self.index, self.chosen, start)
            found = list(islice(takewhile(self.up_to.__ge__, matching), count))
            if found:
                yield found
            if len(found) < count:
                return
            start, left = found[-1] + 1, left - count

    def _few(self, start: int) -> Iterator[int]:
        """Iterate with one lookup each: cheaper than a whole segment of the index for a few."""
        seq = self.index.live.next(start)
        while seq:
            yield seq
            seq = self.index.live.next(seq + 1)


class PagePlan(NamedTuple):
    """Messages of a stream within bounds, to be read step by step."""

    stream: str
    stream_id: int
    seqs: Sequence[int] | Matching
    """All that match, also those beyond the bounds."""
    most: int
    """Most messages of the page."""
    step: int
    """Messages to read at a time."""
    bytes_max: int = _UNBOUNDED
    """Bytes of subjects, headers and payloads at which the page ends; its sender counts them."""
    up_to_seq: int | None = None
    """The point of the page, where these are the last messages of their subjects."""

    def steps(self) -> Iterator[ReadPlan]:
        """Iterate over the plan's parts."""
        if isinstance(self.seqs, Matching):
            parts: Iterator[Sequence[int]] = self.seqs.steps(self.step, self.most)
        else:
            chosen = self.seqs[: self.most]
            parts = (chosen[start : start + self.step] for start in range(0, len(chosen), self.step))
        return (ReadPlan(self.stream, self.stream_id, part) for part in parts)


class Part(NamedTuple):
    """The page of an answer to read."""

    after_seq: int
    most: int

    def of(self, seqs: Sequence[int]) -> list[int]:
        """Return those of the ascending sequences that are on the page."""
        start = bisect_right(seqs, self.after_seq)
        return list(seqs[start : start + self.most])


class PastPlan(NamedTuple):
    """The last message of each matching subject at a past point: it needs the tables' history."""

    stream: str
    subjects: Sequence[str]
    up_to_seq: int | None
    """Inclusive."""
    up_to_ts_ns: int | None
    """Exclusive."""
    limit: int | Part
    """Most subjects of the answer, or the part of it to read."""


class WantedLasts(NamedTuple):
    """A page of the last messages: those of one stream after those of another, each stream's by sequence."""

    streams: tuple[tuple[str, tuple[str, ...]], ...]
    """Names, ascending, and subject filters."""
    after: tuple[str, int]
    """Stream and sequence of the last message of the page before; an empty name for the first page."""
    messages_max: int
    bytes_max: int
    """Payload and headers; a page has one message at least."""


class FoundLasts(NamedTuple):
    """A page of messages with their streams."""

    messages: list[tuple[str, StreamMessage]]
    more: bool
    """Whether others follow."""


def step_of(index: StreamIndex, most: int, bytes_max: int) -> int:
    """Return how many of a stream's messages to read at a time: by number, and by bytes where messages are large."""
    return max(1, min(most, bytes_max // max(1, index.bytes // max(1, index.msgs))))
