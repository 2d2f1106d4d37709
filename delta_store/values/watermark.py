"""Watermarks: how far each stream is settled, and how that decides the treatment of a batch of journal rows. Pure.

The watermarks are in the metadata of each commit to ``messages`` and are the settle job's only position: rows at or
below them are in the table already, whatever a checkpoint says. Invariant: a watermark never moves past a row that is
not settled, so a batch that would leave a gap is refused.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from delta_store.values.records import Position

_CRC_KEY: Final = '"crc":"'
_CRC_ZEROS: Final = "00000000"


class JournalGap(Exception):
    """Rows between the watermark and a batch are missing: settling past them would lose acknowledged messages."""

    def __init__(self, stream: str, settled: int, found: int) -> None:
        super().__init__(f"stream {stream!r}: settled up to {settled}, the next row of the journal is {found}")
        self.stream, self.settled, self.found = stream, settled, found


class Watermark(NamedTuple):
    """The last settled row of one stream."""

    stream_id: int
    seq: int
    event_no: int
    first_seq: int
    """The stream's first sequence as that row recorded it: everything below is dead."""

    @property
    def position(self) -> Position:
        """The last settled row's place in its stream's order."""
        return Position(self.stream_id, self.seq, self.event_no)


Watermarks = Mapping[str, Watermark]


class Op(StrEnum):
    """The operation of a commit to ``messages``; the values are persisted."""

    APPEND = "append"
    LIMITS = "limits"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Claim:
    """A commit's statement of its effect on the rows of ``messages``; readers check its files against it."""

    rows: int
    """Rows in the table after the commit."""
    added: Mapping[str, int]
    """Rows that the commit adds, by stream; empty unless it appends."""
    left_out: int = 0
    """Rows of the journal that it settles without adding them: superseded states of consumers, and duplicates.

    Less the rows that it adds and the journal never had: those of branches, from their origins' files.
    """
    repeats: int = 0
    """The duplicates among ``left_out``: messages whose id was in their stream's window."""


@dataclass(frozen=True, slots=True)
class CommitNote:
    """The ``userMetadata`` of a commit to ``messages``.

    ``crc`` in its persisted form is the CRC-32 of the whole text with that field's digits as zeros. Notes of older
    versions have neither claim nor checksum.
    """

    op: Op
    watermarks: Watermarks
    batch: int = 0
    """Number of the append since the table began; the transaction version that makes an append happen once."""
    claim: Claim | None = None

    def as_json(self) -> str:
        """Return the persisted form, complete for all streams."""
        marks = {
            name: {"id": mark.stream_id, "seq": mark.seq, "event": mark.event_no, "first": mark.first_seq}
            for name, mark in sorted(self.watermarks.items())
        }
        note: dict[str, object] = {"op": self.op.value, "batch": self.batch, "watermarks": marks}
        if self.claim is not None:
            added = dict(sorted(self.claim.added.items()))
            note |= {"rows": self.claim.rows, "added": added}
            note |= {"left_out": self.claim.left_out, "repeats": self.claim.repeats}
        text = json.dumps(note | {"crc": _CRC_ZEROS}, separators=(",", ":"))
        return _with_crc(text, f"{crc32(text.encode()):08x}")

    @classmethod
    def from_json(cls, text: str) -> "CommitNote":
        """Parse the persisted form; raise ``ValueError``, ``KeyError`` or ``TypeError`` for anything else."""
        note = json.loads(text)
        if "crc" in note and f"{crc32(_with_crc(text, _CRC_ZEROS).encode()):08x}" != note["crc"]:
            raise ValueError("its note does not match its checksum")
        marks = {
            name: Watermark(int(mark["id"]), int(mark["seq"]), int(mark["event"]), int(mark["first"]))
            for name, mark in note["watermarks"].items()
        }
        claim = None
        if "rows" in note:
            added = {str(name): int(rows) for name, rows in note["added"].items()}
            claim = Claim(int(note["rows"]), added, int(note["left_out"]), int(note["repeats"]))
        return cls(Op(note["op"]), marks, int(note.get("batch", 0)), claim)


def _with_crc(text: str, digits: str) -> str:
    start = text.rindex(_CRC_KEY) + len(_CRC_KEY)
    return text[:start] + digits + text[start + len(digits) :]


class Run(NamedTuple):
    """The rows of one stream's incarnation in a batch; positions are (seq, event_no)."""

    stream: str
    stream_id: int
    messages: int
    """Number of message rows, duplicates included."""
    seq_min: int
    """Lowest ``seq`` of the message rows; 0 without any."""
    seq_max: int
    first: tuple[int, int]
    last: tuple[int, int]
    last_first_seq: int
    """``first_seq`` as the row at ``last`` recorded it."""

    @property
    def last_position(self) -> Position:
        """The last row's place in its stream's order."""
        return Position(self.stream_id, *self.last)


class Care(Enum):
    """The treatment that a batch needs before it is appended."""

    NOTHING_NEW = "nothing new"
    AS_IT_IS = "as it is"
    """Each run continues its watermark row by row: there is nothing to filter or deduplicate."""
    SIFT = "sift"
    """Rows may be settled already, or occur twice in the batch."""


def is_settled(position: Position, mark: Watermark | None) -> bool:
    """Whether the row at this position is in ``messages`` already."""
    return mark is not None and position <= mark.position


def care_for(runs: Iterable[Run], watermarks: Watermarks) -> Care:
    """Decide a batch's treatment from the counts of its runs, without reading its rows."""
    clean, any_new = True, False
    for run in runs:
        mark = watermarks.get(run.stream)
        any_new |= not is_settled(run.last_position, mark)
        clean &= _continues(run, mark)
    if not any_new:
        return Care.NOTHING_NEW
    return Care.AS_IT_IS if clean else Care.SIFT


def _continues(run: Run, mark: Watermark | None) -> bool:
    settled = mark.seq if mark is not None and mark.stream_id == run.stream_id else 0
    if is_settled(Position(run.stream_id, *run.first), mark):
        return False
    if run.messages == 0:
        return run.last[0] == settled
    return run.seq_min == settled + 1 and run.seq_max - run.seq_min + 1 == run.messages


def advance(watermarks: Watermarks, runs: Iterable[Run]) -> dict[str, Watermark]:
    """Return the watermarks after a batch was settled; none moves back."""
    marks = dict(watermarks)
    for run in runs:
        mark = marks.get(run.stream)
        if not is_settled(run.last_position, mark):
            marks[run.stream] = Watermark(run.stream_id, *run.last, run.last_first_seq)
    return marks
