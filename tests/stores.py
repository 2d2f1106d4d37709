"""A small store with a journal and settled rows, and functions that damage its files.

The settled rows are written through delta-rs, with the settle job's commit notes; no JVM is needed.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from delta_store.journal.journal import Journal
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_confirm import confirm_settled
from tests.groups import columns, open_journal
from tests.tables import History, Tables

Harm = Callable[[Path], None]


@dataclass
class Both:
    """A journal of 800 messages, 700 of which are settled by two commits."""

    data: Path
    claims: bool = True
    relied: bool = False
    """Whether the journal is truncated to the unsettled rows."""
    by_delta_rs: bool = True
    """Whether ``messages`` is a table of an older version, whose entries have no checksum of their own."""
    journal: Journal = field(init=False)
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        self.journal, self.tables = (
            open_journal(self.data / "journal"),
            Tables(self.data, claims=self.claims, by_delta_rs=self.by_delta_rs),
        )
        history = History()
        rows = [history.create(), *(history.publish(f"s.{number % 3}") for number in range(800))]
        for stop, settled in ((401, True), (701, True), (801, False)):
            group = rows[len(self.tables.rows) : stop]
            self.journal.commit(columns(group))
            self.tables.rows.extend(group)
            if settled:
                self.tables.settle()
        if self.relied:
            newest = 1 if self.by_delta_rs else self.tables.owner.snapshot.version
            self.journal.truncate({"S": self.tables.marks["S"].position}, relies_on=newest)

    @property
    def settled(self) -> SettledTable:
        """The settled table as a process that has just started opens it."""
        return SettledTable(str(self.data / "messages"))

    @property
    def relied_on(self) -> SettledTable:
        """The same, relied on up to its version, so that nothing up to there may be passed over as torn."""
        return SettledTable(str(self.data / "messages"), relied_on=lambda: 1)

    def entry(self, version: int = 1, table: str = "messages") -> Path:
        """Return the path of a log entry."""
        return self.data / table / "_delta_log" / f"{version:020d}.json"

    def file(self, table: str = "messages") -> Path:
        """Return the path of a data file with messages."""
        return min(path for path in (self.data / table).rglob("*.parquet") if "events" not in str(path))

    def confirm(self) -> int:
        """Confirm the settled rows as the gateway does before it truncates."""
        settled = self.relied_on
        return confirm_settled(settled, settled.refresh(), self.journal.reader.live_files())

    def checkpoint(self) -> None:
        """Write a checkpoint of both tables."""
        self.journal.checkpoint()
        DeltaTable(str(self.data / "messages")).create_checkpoint()


def empty(path: Path) -> None:
    """Cut to zero length."""
    os.truncate(path, 0)


def halve(path: Path) -> None:
    """Cut to half its length."""
    os.truncate(path, path.stat().st_size // 2)


def nul(path: Path) -> None:
    """Overwrite with NUL bytes."""
    path.write_bytes(b"\0" * path.stat().st_size)


def flip(path: Path) -> None:
    """Flip one bit in the middle of the first half: in a Parquet file a value, not the footer."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 4] ^= 1
    path.write_bytes(raw)


def missing(path: Path) -> None:
    """Remove the file."""
    path.unlink()


def flip_payload(path: Path) -> None:
    """Flip one bit among the payloads of a Parquet file."""
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    data = columns["data"]
    raw = bytearray(path.read_bytes())
    start = data.dictionary_page_offset if data.has_dictionary_page else data.data_page_offset
    raw[start + data.total_compressed_size // 3] ^= 1
    path.write_bytes(raw)


def lose_adds(path: Path, *, keep: str = "") -> None:
    """Remove every second ``add`` line of a log entry, or all without the text ``keep``."""
    lines = path.read_text().splitlines(keepends=True)
    adds = [line for line in lines if line.startswith('{"add"')]
    lost = [line for line in adds if keep not in line] if keep else adds[::2]
    path.write_text("".join(line for line in lines if line not in lost))


ALL = (empty, halve, nul, flip, missing)
