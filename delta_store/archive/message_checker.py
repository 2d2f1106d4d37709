"""The check of an archive's messages: sizes, subjects, times, ascending sequences."""

from collections.abc import Callable
from typing import Final

from conf.limits import TIME_NS_MAX
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun

_SUBJECTS_MAX: Final = 10_000


class MessageChecker:
    """The check of messages that come in runs."""

    def __init__(self, *, bytes_max: int, valid_subject: Callable[[str], bool]) -> None:
        """``bytes_max`` bounds headers and payload of a message."""
        self._bytes_max = bytes_max
        self._valid_subject = valid_subject
        self._known_subjects: frozenset[str] = frozenset()
        """Subjects that were found valid."""
        self._before = self._last = 0

    def expect(self, before: int, last: int) -> None:
        """Expect sequences above ``before`` up to ``last``."""
        self._before, self._last = before, last

    def check_head(self, seq: int, size: int) -> None:
        """Refuse a message by its sequence and the bytes of its headers and payload."""
        if size > self._bytes_max:
            raise BadArchive(f"message sequence {seq} exceeds maximum message size")
        if seq <= self._before:
            raise BadArchive(f"message sequence {seq} out of order")
        if seq > self._last:
            raise BadArchive(f"message sequence {seq} is behind the last sequence, {self._last}")

    def checked(self, run: EntryRun) -> EntryRun:
        """Check messages at once, and one by one where something is wrong, so that the first is what is told."""
        seqs = run.seqs
        is_fine = (
            int(seqs[0]) > self._before
            and bool((seqs[1:] > seqs[:-1]).all())
            and int(seqs[-1]) <= self._last
            and int(run.sizes.max()) <= self._bytes_max
        )
        if int(run.ts_ns.max()) > TIME_NS_MAX or int(run.ts_ns.min()) < -TIME_NS_MAX:
            raise BadArchive(f"message sequences {seqs[0]} to {seqs[-1]} have times that no clock has")
        new = frozenset(run.subjects) - self._known_subjects
        if not is_fine or not all(map(self._valid_subject, new)):
            for subject, seq, size in zip(run.subjects, seqs.tolist(), run.sizes.tolist(), strict=True):
                self.check_head(seq, size)
                if not self._valid_subject(subject):
                    raise BadArchive(f"message sequence {seq} has an invalid subject")
                self._before = seq
        if new:
            self._known_subjects = new if len(self._known_subjects) > _SUBJECTS_MAX else self._known_subjects | new
        self._before = int(seqs[-1])
        return run
