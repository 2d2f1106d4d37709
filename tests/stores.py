"""A small store with a real journal and settled rows, and ways to damage it.

What is settled is written through delta-rs, with the notes that the settle job writes; no JVM is needed.
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
    """A journal of 800 messages, 700 of which are settled by two commits; all that is checked is real."""

    data: Path
    claims: bool = True
    relied: bool = False
    """Whether the journal has forgotten what is settled."""
    journal: Journal = field(init=False)
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        self.journal, self.tables = open_journal(self.data / "journal"), Tables(self.data, claims=self.claims)
        history = History()
        rows = [history.create(), *(history.publish(f"s.{number % 3}") for number in range(800))]
        for stop, settled in ((401, True), (701, True), (801, False)):
            group = rows[len(self.tables.rows) : stop]
            self.journal.commit(columns(group))
            self.tables.rows.extend(group)
            if settled:
                self.tables.settle()
        if self.relied:
            self.journal.truncate({"S": self.tables.marks["S"].position}, relies_on=1)

    @property
    def settled(self) -> SettledTable:
        """The settled table as a process finds it that has just started."""
        return SettledTable(str(self.data / "messages"))

    @property
    def relied_on(self) -> SettledTable:
        """The same with all of it fsynced and relied on, so that nothing of it may be passed over as torn."""
        return SettledTable(str(self.data / "messages"), relied_on=lambda: 1)

    def entry(self, version: int = 1, table: str = "messages") -> Path:
        """A log entry."""
        return self.data / table / "_delta_log" / f"{version:020d}.json"

    def file(self, table: str = "messages") -> Path:
        """A data file with messages."""
        return min(path for path in (self.data / table).rglob("*.parquet") if "events" not in str(path))

    def confirm(self) -> int:
        """What the gateway does before it truncates."""
        settled = self.relied_on
        return confirm_settled(settled, settled.refresh(), self.journal.live_files())

    def checkpoint(self) -> None:
        """Make a checkpoint of both tables."""
        self.journal.checkpoint()
        DeltaTable(str(self.data / "messages")).create_checkpoint()


def empty(path: Path) -> None:
    """To zero length."""
    os.truncate(path, 0)


def halve(path: Path) -> None:
    """To half its length."""
    os.truncate(path, path.stat().st_size // 2)


def nul(path: Path) -> None:
    """NUL bytes alone."""
    path.write_bytes(b"\0" * path.stat().st_size)


def flip(path: Path) -> None:
    """One bit, in the middle of the first half: of a Parquet file that is a value, not the footer."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 4] ^= 1
    path.write_bytes(raw)


def missing(path: Path) -> None:
    """No such file any more."""
    path.unlink()


def flip_payload(path: Path) -> None:
    """One bit among the payloads of a Parquet file."""
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    data = columns["data"]
    raw = bytearray(path.read_bytes())
    start = data.dictionary_page_offset if data.has_dictionary_page else data.data_page_offset
    raw[start + data.total_compressed_size // 3] ^= 1
    path.write_bytes(raw)


def lose_adds(path: Path, *, keep: str = "") -> None:
    """Every second ``add`` line of a log entry, or all that don't hold a text."""
    lines = path.read_text().splitlines(keepends=True)
    adds = [line for line in lines if line.startswith('{"add"')]
    lost = [line for line in adds if keep not in line] if keep else adds[::2]
    path.write_text("".join(line for line in lines if line not in lost))


ALL = (empty, halve, nul, flip, missing)
