"""Which messages of a stream are asked for: by sequence, time and subject. Pure.

What statistics exclude is never read; what is left is matched row by row, so the answer is exact.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from delta_store.entries.settled_log import DataFile
from delta_store.reading.state_at import END
from delta_store.values.folder_layout import UNSPREAD, subject_folder
from delta_store.values.subjects import SubjectFilter

LATEST_NS: Final = (1 << 63) - 1
_EVERYTHING: Final = (">",)


class Extent(NamedTuple):
    """What statistics say of some rows: lowest and highest of each column, None where that is not known."""

    seq: tuple[int, int] | None
    ts_ns: tuple[int, int] | None
    subject: tuple[str, str] | None


class MessageBounds(NamedTuple):
    """The messages that are asked for; a value that can be sent to another process."""

    seqs: tuple[int, int] = (1, END)
    """First and last."""
    times: tuple[int, int] = (0, LATEST_NS)
    """First and last, ns since 1970."""
    filters: tuple[str, ...] = _EVERYTHING
    """Subject filters, of which one must match."""
    subjects: frozenset[str] | None = None
    """Subjects to choose from; None for all."""
    prefix: str = ""
    """What the subject begins with."""

    def within(self, first: int, last: int) -> "MessageBounds":
        """Return these bounds for a part of the sequences."""
        return self._replace(seqs=(max(self.seqs[0], first), min(self.seqs[1], last)))

    @property
    def is_empty(self) -> bool:
        """Whether no message can be asked for."""
        return self.seqs[0] > self.seqs[1] or self.times[0] > self.times[1] or self.subjects == frozenset()

    @property
    def any_subject(self) -> bool:
        """Whether the subject does not matter."""
        return ">" in self.filters and self.subjects is None and not self.prefix

    def literals(self) -> frozenset[str] | None:
        """Return the only subjects that can match; None where they can't be counted."""
        return _literals(self.filters, self.subjects, self.prefix)

    def admits(self, extent: Extent) -> bool:
        """Whether rows of this extent may be asked for."""
        return (
            _overlap(extent.seq, self.seqs)
            and _overlap(extent.ts_ns, self.times)
            and (extent.subject is None or self._admits_subjects(*extent.subject))
        )

    def admits_file(self, file: DataFile) -> bool:
        """Whether messages in a file of either table may be asked for, by its statistics and its partition."""
        if not file.has_messages or not self.admits(Extent(file.seq, file.ts_ns, file.subject)):
            return False
        folder, literals = file.subject_partition, self.literals()
        if folder is None or folder in UNSPREAD or literals is None:
            return True
        return any(folder in (subject_folder(one, exact=True), subject_folder(one, exact=False)) for one in literals)

    def select(self, subjects: Sequence[str]) -> list[bool]:
        """Return whether each subject is asked for."""
        found = _compiled(self.filters).select(subjects)
        if self.subjects is None and not self.prefix:
            return found
        return [
            hit and subject.startswith(self.prefix) and (self.subjects is None or subject in self.subjects)
            for hit, subject in zip(found, subjects, strict=True)
        ]

    def _admits_subjects(self, low: str, high: str) -> bool:
        literals = self.literals()
        if literals is not None:
            return any(low <= subject <= high for subject in literals)
        chosen = _compiled(self.filters)
        return _may_begin(low, high, (self.prefix,)) and (
            chosen.starts is None
            or _may_begin(low, high, chosen.starts)
            or any(low <= one <= high for one in chosen.literals)
        )


@lru_cache(maxsize=64)
def _compiled(filters: tuple[str, ...]) -> SubjectFilter:
    return SubjectFilter(filters)


@lru_cache(maxsize=64)
def _literals(filters: tuple[str, ...], subjects: frozenset[str] | None, prefix: str) -> frozenset[str] | None:
    chosen = _compiled(filters)
    if subjects is not None:
        return frozenset(one for one in subjects if chosen.matches(one) and one.startswith(prefix))
    return frozenset(one for one in chosen.literals if one.startswith(prefix)) if chosen.is_literal else None


def _overlap(extent: tuple[int, int] | None, wanted: tuple[int, int]) -> bool:
    return extent is None or (extent[0] <= wanted[1] and wanted[0] <= extent[1])


def _may_begin(low: str, high: str, starts: Iterable[str]) -> bool:
    """Whether a text between the two may begin with one of these."""
    return any(low[: len(start)] <= start <= high for start in starts)
