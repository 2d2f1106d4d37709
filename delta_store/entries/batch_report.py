"""What the writers of a batch hand back: the files, and a summary of the rows in them. Pure.

A task returns one report; those of several tasks, or of one task's parts, are merged. Strings and numbers travel as
JSON, the hashes of message ids as they lie in memory.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from delta_store.entries.staged_file import StagedFile
from delta_store.entries.typed_files import TypedFiles
from delta_store.values.watermark import Run

Int64s = npt.NDArray[np.int64]
REPORT_DDL = "said STRING, hashes BINARY, times BINARY"
_NO_IDS: Int64s = np.empty(0, dtype=np.int64)


class BatchRun(NamedTuple):
    """The rows of one stream incarnation in a batch."""

    run: Run
    events: int
    removals: int
    """Rows that evict or remove messages one by one."""
    damaged: int
    """Rows that fail their checksum."""
    subjects: tuple[int, ...]
    """Hashes of the message subjects, as many as matter to the layout."""


class Told(NamedTuple):
    """The settings of a stream that settling needs, from a STREAM row at this position."""

    stream_id: int
    seq: int
    event_no: int
    stream: str
    window_ns: int
    """Its ``duplicate_window``."""
    is_mirror: bool
    typing: str = ""
    """What its metadata says of a typed table; empty for nothing."""
    history_ns: int | None = None
    """How long its past can be read, where its metadata says it."""
    base: str = ""
    """The settled rows that it begins with, as JSON; empty for none."""


class BatchReport(NamedTuple):
    """The staged files of a batch, and what is in it."""

    files: tuple[StagedFile, ...] = ()
    runs: tuple[BatchRun, ...] = ()
    """One of each stream incarnation."""
    told: tuple[Told, ...] = ()
    """In the order of their positions."""
    hashes: Int64s = _NO_IDS
    """Of the message ids."""
    times: Int64s = _NO_IDS
    """``ts_ns`` of the messages with an id."""
    typed: tuple[TypedFiles, ...] = ()
    """Files of typed tables."""

    @property
    def rows(self) -> int:
        """Rows read, those that are in no file included."""
        return sum(one.run.messages + one.events for one in self.runs)

    @property
    def added(self) -> dict[str, int]:
        """Rows in the files, by stream."""
        found: dict[str, int] = {}
        for file in self.files:
            found[file.stream] = found.get(file.stream, 0) + file.rows
        return found

    def as_arrow(self) -> pa.RecordBatch:
        """Return the report as one row of :data:`REPORT_DDL`."""
        said = json.dumps({"files": self.files, "runs": self.runs, "told": self.told, "typed": self.typed})
        columns = {"said": [said], "hashes": [self.hashes.tobytes()], "times": [self.times.tobytes()]}
        return pa.RecordBatch.from_pydict(columns)

    @classmethod
    def from_row(cls, said: str, hashes: bytes, times: bytes) -> "BatchReport":
        """Parse one row."""
        found = json.loads(said)
        return cls(
            tuple(StagedFile(*file) for file in found["files"]),
            tuple(map(_run, found["runs"])),
            tuple(Told(*one) for one in found["told"]),
            np.frombuffer(hashes, dtype=np.int64),
            np.frombuffer(times, dtype=np.int64),
            tuple(map(TypedFiles.of, found["typed"])),
        )


def merged(reports: Sequence[BatchReport]) -> BatchReport:
    """Return one report of all."""
    if len(reports) == 1:
        return reports[0]
    runs: dict[tuple[str, int], BatchRun] = {}
    for report in reports:
        for one in report.runs:
            key = (one.run.stream, one.run.stream_id)
            runs[key] = _joined(runs[key], one) if key in runs else one
    return BatchReport(
        tuple(file for report in reports for file in report.files),
        tuple(runs.values()),
        tuple(sorted(told for report in reports for told in report.told)),
        np.concatenate([_NO_IDS, *(report.hashes for report in reports)]),
        np.concatenate([_NO_IDS, *(report.times for report in reports)]),
        tuple(one for report in reports for one in report.typed),
    )


def _joined(left: BatchRun, right: BatchRun) -> BatchRun:
    one, other = left.run, right.run
    newest = max(one, other, key=lambda run: run.last)
    run = Run(
        one.stream,
        one.stream_id,
        one.messages + other.messages,
        min((run.seq_min for run in (one, other) if run.messages), default=0),
        max(one.seq_max, other.seq_max),
        min(one.first, other.first),
        newest.last,
        newest.last_first_seq,
    )
    subjects = tuple({*left.subjects, *right.subjects})
    counts = (left.events + right.events, left.removals + right.removals, left.damaged + right.damaged)
    return BatchRun(run, *counts, subjects)


def _run(fields: Iterable[Any]) -> BatchRun:
    run, events, removals, damaged, subjects = fields
    *numbers, first, last, first_seq = run
    return BatchRun(
        Run._make((*numbers, tuple(first), tuple(last), first_seq)), events, removals, damaged, tuple(subjects)
    )
