"""Settling without Spark: journal rows above the watermark go into ``messages`` through delta-rs, which fsyncs nothing.

What to settle, the note that says so, and what is put right after a power cut are Silt's own; so are the readers'
checks of it, and the truncation that follows.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from delta_store.log.log_repair import repair_messages
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settled import SettledTable
from delta_store.values.records import Kind, Row, stored_size
from delta_store.values.schemas import (
    CONSUMERS_PARTITION,
    EVENTS_PARTITION,
    MESSAGES_PARTITION_COLUMNS,
    MESSAGES_SCHEMA,
)
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark

_CONSUMERS = {Kind.CONSUMER, Kind.CONSUMER_STATE, Kind.CONSUMER_DELETE, Kind.SOURCE_STATE}


class SimSettler:
    """The settle job of one life of the machine, or of several."""

    def __init__(self, data: Path, dice: random.Random, trace: Callable[[str], None]) -> None:
        self._data = data
        self._dice = dice
        self._trace = trace
        self._tail = JournalTail(str(data / "journal"))
        self._settled = SettledTable(str(data / "messages"), relied_on=self._tail.relies_on)

    async def run(self, now_ns: Callable[[], int]) -> None:
        """Put right what a power cut tore, then settle now and then, until cancelled."""
        repaired = repair_messages(self._data, now_ns=now_ns())
        self._trace(f"settler begins at {repaired.version}, set aside {len(repaired.aside)}")
        while True:
            await asyncio.sleep(self._dice.uniform(0.15, 0.9))
            self.settle()

    def settle(self) -> None:
        """One batch: all that is in the journal and not settled."""
        pinned, base = self._tail.refresh(), self._settled.refresh()
        if pinned.version < 0:
            return
        new = [row for rows in rows_above(self._tail, pinned, base.watermarks) for row in rows.rows()]
        if not new:
            return
        marks = dict(base.watermarks)
        for row in new:
            marks[row.stream] = Watermark(row.stream_id, row.seq, row.event_no, row.first_seq)
        held = sum(file.rows for file in base.files.values())
        claim = Claim(held + len(new), Counter(row.stream for row in new))
        note = CommitNote(Op.APPEND, marks, claim=claim)
        write_deltalake(
            str(self._data / "messages"),
            _table(new),
            mode="append",
            partition_by=list(MESSAGES_PARTITION_COLUMNS),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": note.as_json()}),
        )
        self._trace(f"settled {len(new)} rows up to {sorted((name, mark.seq) for name, mark in marks.items())}")


def _table(rows: list[Row]) -> pa.Table:
    values = [(*row, stored_size(row.subject, row.headers, row.data), _partition(row)) for row in rows]
    columns = list(zip(*values, strict=True))
    arrays = [pa.array(column, one.type) for column, one in zip(columns, MESSAGES_SCHEMA, strict=True)]
    return pa.table(arrays, schema=MESSAGES_SCHEMA)


def _partition(row: Row) -> str:
    if row.kind == Kind.MESSAGE:
        return "b00"
    return CONSUMERS_PARTITION if row.kind in _CONSUMERS else EVENTS_PARTITION
