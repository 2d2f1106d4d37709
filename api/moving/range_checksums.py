"""Checksums of a stream's messages by range of sequences, by which two servers' streams are compared. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from delta_store.archive.message_entries import encode_run
from delta_store.values.stream_message import MessageRun

RANGE_SEQUENCES: Final = 10_000
_BYTES: Final = 16


class RangeSum(NamedTuple):
    """The messages of one range."""

    messages: int
    checksum: bytes
    """Of subjects, sequences, times, header blocks and payloads."""


class RangeChecksums:
    """The ranges of a stream that is read in order."""

    def __init__(self) -> None:
        self.messages = 0
        """How many messages were added."""
        self._counts: dict[int, int] = {}
        self._sums: dict[int, blake2b] = {}

    def add(self, run: MessageRun) -> None:
        """Add the next messages."""
        self.messages += len(run)
        start = 0
        while start < len(run):
            place = range_of(run.seqs[start])
            end = bisect_left(run.seqs, (place + 1) * RANGE_SEQUENCES, start)
            self._counts[place] = self._counts.get(place, 0) + end - start
            self._sums.setdefault(place, blake2b(digest_size=_BYTES)).update(encode_run(run[start:end]))
            start = end

    @property
    def ranges(self) -> dict[int, RangeSum]:
        """The ranges that have messages, by number."""
        return {place: RangeSum(count, self._sums[place].digest()) for place, count in self._counts.items()}


class MessageChecksums:
    """The checksum of each message in some ranges."""

    def __init__(self, places: Collection[int]) -> None:
        self._places = frozenset(places)
        self.by_seq: dict[int, bytes] = {}

    def add(self, run: MessageRun) -> None:
        """Add messages; those in other ranges are left out."""
        for at, seq in enumerate(run.seqs):
            if range_of(seq) in self._places:
                self.by_seq[seq] = blake2b(encode_run(run[at : at + 1]), digest_size=_BYTES).digest()


class Difference(NamedTuple):
    """In what a copy is not its origin; true where something is wrong."""

    missing: tuple[int, ...]
    """Sequences that the origin has alone."""
    altered: tuple[int, ...]
    """Sequences whose messages differ."""
    surplus: tuple[int, ...]
    """Sequences that the copy has alone, as the origin has lost them since: no damage."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.altered)

    def __str__(self) -> str:
        said = (("not there", self.missing), ("different", self.altered))
        return ", ".join(f"{len(seqs):,} {what} (the first is {seqs[0]})" for what, seqs in said if seqs)


def range_of(seq: int) -> int:
    """Return the number of the range that has a sequence."""
    return seq // RANGE_SEQUENCES


def up_to(run: MessageRun, seq: int) -> int:
    """Return how many messages of a run have sequences up to one."""
    return bisect_right(run.seqs, seq)


def unequal(origin: Mapping[int, RangeSum], copy: Mapping[int, RangeSum]) -> list[int]:
    """Return the numbers of the ranges that differ."""
    return sorted(place for place in {*origin, *copy} if origin.get(place) != copy.get(place))


def difference(origin: Mapping[int, bytes], copy: Mapping[int, bytes]) -> Difference:
    """Compare messages by their checksums."""
    altered = (seq for seq in origin.keys() & copy.keys() if origin[seq] != copy[seq])
    missing, surplus = origin.keys() - copy.keys(), copy.keys() - origin.keys()
    return Difference(tuple(sorted(missing)), tuple(sorted(altered)), tuple(sorted(surplus)))
