"""A message of a stream as readers see it, single and in columns."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, overload


class StreamMessage(NamedTuple):
    """One message of a stream, read from memory, the journal or settled files."""

    subject: str
    seq: int
    ts_ns: int
    headers: bytes | None
    """Raw header block as published, from ``NATS/1.0`` to the empty line; None when there is none."""
    data: bytes


class MessageRun(Sequence[StreamMessage]):
    """A run of messages column by column (equal lengths), without an object for each."""

    __slots__ = ("data", "headers", "seqs", "subjects", "ts_ns")

    def __init__(self, columns: "Columns") -> None:
        self.subjects, self.seqs, self.ts_ns, self.headers, self.data = columns

    @classmethod
    def of(cls, messages: Sequence[StreamMessage]) -> "MessageRun":
        """Return the messages as columns; a run is returned as it is."""
        if isinstance(messages, MessageRun):
            return messages
        subjects, seqs, ts_ns, headers, data = zip(*messages, strict=True) if messages else ((), (), (), (), ())
        return cls((subjects, seqs, ts_ns, headers, data))

    @property
    def columns(self) -> "Columns":
        """Subjects, sequences, times, headers and payloads."""
        return self.subjects, self.seqs, self.ts_ns, self.headers, self.data

    def __len__(self) -> int:
        return len(self.seqs)

    @overload
    def __getitem__(self, place: int) -> StreamMessage: ...

    @overload
    def __getitem__(self, place: slice) -> "MessageRun": ...

    def __getitem__(self, place: "int | slice") -> "StreamMessage | MessageRun":
        if isinstance(place, slice):
            subjects, seqs, ts_ns, headers, data = self.columns
            return MessageRun((subjects[place], seqs[place], ts_ns[place], headers[place], data[place]))
        return StreamMessage(*(column[place] for column in self.columns))  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[StreamMessage]:
        return map(StreamMessage._make, zip(*self.columns, strict=True))


Columns = tuple[Sequence[str], Sequence[int], Sequence[int], Sequence[bytes | None], Sequence[bytes]]
"""The columns of a :class:`MessageRun`, in the order of :class:`StreamMessage`'s fields."""


def joined(runs: Sequence[MessageRun]) -> MessageRun:
    """Return runs one after the other as one; none is an empty one."""
    if len(runs) < 2:
        return runs[0] if runs else MessageRun.of(())
    columns = zip(*(run.columns for run in runs), strict=True)
    return MessageRun(tuple(list(chain.from_iterable(parts)) for parts in columns))  # type: ignore[arg-type]


def merged(runs: Sequence[MessageRun]) -> MessageRun:
    """Merge runs that are each ascending into one; a sequence that occurs twice is returned once."""
    if len(runs) == 1:
        return runs[0]
    columns = joined(runs).columns
    seqs = columns[1]
    order = sorted(range(len(seqs)), key=seqs.__getitem__)
    order = [
        place for before, place in zip([-1, *order], order, strict=False) if before < 0 or seqs[before] != seqs[place]
    ]
    return MessageRun(tuple([column[place] for place in order] for column in columns))  # type: ignore[arg-type]
