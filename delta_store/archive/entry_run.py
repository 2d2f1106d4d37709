"""Messages of an archive in columns, as they are read from it."""

from collections.abc import Sequence
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.values.stream_message import MessageRun


class EntryRun(NamedTuple):
    """Messages of an archive, column by column (equal lengths)."""

    subjects: list[str]
    seqs: npt.NDArray[np.uint64]
    ts_ns: npt.NDArray[np.int64]
    headers: list[bytes | None] | None
    """None when no message has any."""
    data: list[bytes]
    sizes: npt.NDArray[np.int64]
    """Bytes of headers and payload."""

    @property
    def messages(self) -> int:
        """Number of messages."""
        return len(self.data)

    def as_messages(self) -> MessageRun:
        """Return them as readers see messages."""
        headers = self.headers if self.headers is not None else [None] * self.messages
        return MessageRun((self.subjects, self.seqs.tolist(), self.ts_ns.tolist(), headers, self.data))

    def chosen(self, kept: npt.NDArray[np.bool_]) -> "EntryRun":
        """Return some of the messages."""
        subjects, seqs, ts_ns, headers, data, sizes = self
        blocks = [*compress(headers, kept)] if headers is not None else None
        return EntryRun(
            [*compress(subjects, kept)], seqs[kept], ts_ns[kept], blocks, [*compress(data, kept)], sizes[kept]
        )

    def part(self, start: int, stop: int) -> "EntryRun":
        """Return the messages from one place up to another."""
        return EntryRun(*(column[start:stop] if column is not None else None for column in self))  # type: ignore[arg-type]


def entries_of(run: MessageRun) -> EntryRun:
    """Return messages as those of an archive."""
    subjects, seqs, times, blocks, data = run.columns
    headers = list(blocks) if any(blocks) else None
    sizes = np.fromiter(map(len, data), np.int64, len(data))
    if headers is not None:
        sizes += [len(block) if block else 0 for block in headers]
    return EntryRun(list(subjects), np.array(seqs, np.uint64), np.array(times, np.int64), headers, list(data), sizes)


def joined_entries(runs: Sequence[EntryRun]) -> EntryRun:
    """Return runs, at least one, one after the other as one."""
    if len(runs) == 1:
        return runs[0]
    subjects, seqs, ts_ns, headers, data, sizes = zip(*runs, strict=True)
    blocks = None
    if any(column is not None for column in headers):
        blocks = [*chain.from_iterable(run.headers or [None] * run.messages for run in runs)]
    return EntryRun(
        [*chain.from_iterable(subjects)],
        np.concatenate(seqs),
        np.concatenate(ts_ns),
        blocks,
        [*chain.from_iterable(data)],
        np.concatenate(sizes),
    )
