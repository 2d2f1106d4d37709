"""A stream compared with its origin: by checksums of ranges, and where these differ message by message."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple

from api.moving import range_checksums
from api.moving.origin import Origin
from api.moving.range_checksums import Difference, MessageChecksums, RangeChecksums
from delta_store.streams.stream_sources import mirrored_header
from delta_store.values.stream_message import MessageRun

_LOOKS: Final = 3
"""How often a difference is looked at: two servers remove what is too old at slightly different times."""
_LOOK_SECONDS: Final = 1.0
_SAME: Final = Difference((), (), ())

Advance = Callable[[int], None]
Steps = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows a step's progress: its name, and how many messages it takes; the inner function is told how many are done."""


class ComparedSpan(NamedTuple):
    """What is compared of a stream."""

    stream: str
    upto: int
    """The last sequence."""
    messages: int
    """About how many there are."""
    mirrored: bool = False
    """Whether the copy is a mirror, which leaves out the headers that were meant for the origin alone."""


class StreamComparison:
    """Comparisons of streams of two servers."""

    def __init__(self, origin: Origin, target: Origin, steps: Steps) -> None:
        self.origin = origin
        self.target = target
        self.steps = steps

    async def of(self, span: ComparedSpan, known: RangeChecksums | None = None) -> tuple[int, Difference]:
        """Compare; ``known`` are the origin's checksums, if it has been read.

        Returns how many ranges there are, and the difference.
        """
        copy = await self._read(self.target, span, "checked")
        theirs = known or await self._read(self.origin, span, "at the origin")
        ranges = theirs.ranges
        places = range_checksums.unequal(ranges, copy.ranges)
        found = _SAME
        for _ in range(_LOOKS if places else 0):
            found = await self._difference(span, places)
            if not found:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return len(ranges), found

    async def _read(self, place: Origin, span: ComparedSpan, what: str) -> RangeChecksums:
        sums = RangeChecksums()
        with self.steps(f"{span.stream} {what}", span.messages) if span.messages else nullcontext(_quiet) as done:
            async for run in _messages(place, span):
                sums.add(run)
                done(sums.messages)
        return sums

    async def _difference(self, span: ComparedSpan, places: list[int]) -> Difference:
        """Look at ranges as both servers have them now: the origin last, which may lose some meanwhile."""
        found = []
        for place in (self.target, self.origin):
            sums = MessageChecksums(places)
            async for run in _messages(place, span):
                sums.add(run)
            found.append(sums.by_seq)
        return range_checksums.difference(found[1], found[0])


async def _messages(place: Origin, span: ComparedSpan) -> AsyncIterator[MessageRun]:
    async with place.read(span.stream, consumers=False) as reading:
        async for whole in reading.runs:
            if whole.seqs[0] > span.upto:
                return
            run = whole if whole.seqs[-1] <= span.upto else whole[: range_checksums.up_to(whole, span.upto)]
            if len(run):
                yield as_mirrored(run) if span.mirrored else run


def as_mirrored(run: MessageRun) -> MessageRun:
    """Return messages as a mirror has them."""
    subjects, seqs, ts_ns, headers, data = run.columns
    return MessageRun((subjects, seqs, ts_ns, list(map(mirrored_header, headers)), data))


def _quiet(_done: int) -> None:
    """Show nothing."""
