"""What is to be read, as values: made by pure code from a request and the index, and carried out elsewhere. Pure.

A plan says what was live, or which past is asked for, when it was made. What became of that meanwhile is told by
:class:`delta_store.reading.store_reader.StoreReader`, which carries plans out.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, NamedTuple

from delta_store.index.matching import count_matching, iter_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.values.subjects import SubjectFilter

_FEW: Final = 32
_UNBOUNDED: Final = (1 << 63) - 1


class ReadPlan(NamedTuple):
    """Messages of one incarnation of a stream."""

    stream: str
    stream_id: int
    seqs: Sequence[int]
    """Live when this was planned, ascending."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The live sequences that match, looked up step by step: the index may change between two steps."""

    index: StreamIndex
    chosen: SubjectFilter | None
    start: int
    up_to: int
    """The stream's last sequence when this was planned: nothing newer belongs to it."""

    def count(self, from_seq: int) -> int:
        """How many live messages match from a sequence on, newer ones included."""
        return count_matching(self.index, self.chosen, from_seq) if from_seq <= self.index.last_seq else 0

    def steps(self, size: int, most: int) -> Iterator[list[int]]:
        """The first ``most`` sequences, so many at a time."""
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
        """One look-up each: cheaper than a whole stretch of the index when few are wanted."""
        seq = self.index.live.next(start)
        while seq:
            yield seq
            seq = self.index.live.next(seq + 1)


class PagePlan(NamedTuple):
    """Messages of a stream within bounds, to be read step by step."""

    stream: str
    stream_id: int
    seqs: Sequence[int] | Matching
    """All that match, also those that the bounds leave out."""
    most: int
    """How many messages there may be."""
    step: int
    """How many to read at a time."""
    bytes_max: int = _UNBOUNDED
    """Nothing more is wanted once subjects, headers and payloads come to this: who sends them counts them."""
    up_to_seq: int | None = None
    """The point that is shown, where these are the last messages of their subjects."""

    def steps(self) -> Iterator[ReadPlan]:
        """The plan in parts, one after the other."""
        if isinstance(self.seqs, Matching):
            parts: Iterator[Sequence[int]] = self.seqs.steps(self.step, self.most)
        else:
            chosen = self.seqs[: self.most]
            parts = (chosen[start : start + self.step] for start in range(0, len(chosen), self.step))
        return (ReadPlan(self.stream, self.stream_id, part) for part in parts)


class Part(NamedTuple):
    """Which messages of an answer are wanted: the others are not read."""

    after_seq: int
    most: int

    def of(self, seqs: Sequence[int]) -> list[int]:
        """Those of the ascending sequences."""
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
    """How many subjects there may be, or which part of them is wanted."""


def step_of(index: StreamIndex, most: int, bytes_max: int) -> int:
    """How many of a stream's messages make a good step: by count, and by bytes where messages are large."""
    return max(1, min(most, bytes_max // max(1, index.bytes // max(1, index.msgs))))
