"""Upkeep of the rows of ``heads`` and ``removed``: small files merged, rows that nobody needs dropped.

Each function plans one commit to a table's state; None when nothing is due.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from conf.clock import Clock
from conf.limits import HEADS_FILES_MAX, REMOVED_KEPT_SECONDS
from delta_store.beside.beside_table import BesideTable
from delta_store.entries import head_rows, removed_rows
from delta_store.entries.beside_entry import BesideFile, BesideState, Change
from delta_store.heads.stored_rows import read_rows, write_heads, write_removed
from delta_store.values.horizons import Horizons
from delta_store.values.schemas import HEADS_SCHEMA, REMOVED_SCHEMA

_KEPT_NS: Final = round(REMOVED_KEPT_SECONDS * 1e9)


class HeadsUpkeep:
    """Upkeep by the owner of ``messages`` with this epoch. One thread at a time."""

    def __init__(
        self, heads: BesideTable, removed: BesideTable, *, epoch: int, clock: Clock, horizons: Horizons
    ) -> None:
        self._heads, self._removed, self._epoch, self._clock = heads, removed, epoch, clock
        self._horizons = horizons

    def maintain(self, applied: int) -> None:
        """Do what is due; all that was not live at version ``applied`` of ``messages`` has been deleted from it."""
        self._removed.commit(partial(self._sorted_out, applied))
        self._removed.commit(self._let_go)
        self._heads.commit(self._merged_heads)
        for table in (self._removed, self._heads):
            table.upkeep()

    def _sorted_out(self, applied: int, state: BesideState) -> Change | None:
        """Merge the files of rows that are needed, and give a time to go to those that are not any more."""
        files = [file for file in state.files.values() if not highest(file, "until_ns")]
        if len(files) <= HEADS_FILES_MAX and all(_lowest(file, "version") > applied for file in files):
            return None
        now_ns, rows = self._clock.now_ns(), read_rows(self._removed.storage, files, REMOVED_SCHEMA)
        needed, past, over = removed_rows.split(rows, applied=applied)
        longest_ns = round(self._horizons.longest * 1e9)
        past = removed_rows.until(past, now_ns + longest_ns)
        over = removed_rows.until(over, now_ns + min(_KEPT_NS, longest_ns))
        return self._rewritten(self._removed, files, removed_rows.in_order(needed), past, over)

    def _let_go(self, state: BesideState) -> Change | None:
        """Drop the files whose time has come; merge those that wait for it when they are many."""
        waiting = {file: until for file in state.files.values() if (until := highest(file, "until_ns"))}
        now_ns = self._clock.now_ns()
        if late := {file.path for file, until in waiting.items() if until <= now_ns}:
            return Change(removed=late, operation="DELETE")
        if len(waiting) <= HEADS_FILES_MAX:
            return None
        rows = read_rows(self._removed.storage, waiting, REMOVED_SCHEMA)
        return self._rewritten(self._removed, list(waiting), rows)

    def _merged_heads(self, state: BesideState) -> Change | None:
        """Merge the newest files, without rows that are not needed."""
        if len(state.files) <= HEADS_FILES_MAX:
            return None
        files = sorted(state.files.values(), key=lambda file: _lowest(file, "version"))
        files = files[-head_rows.newest_tier([file.rows for file in files]) :]
        rows = head_rows.from_table(read_rows(self._heads.storage, files, HEADS_SCHEMA))
        before_ns = self._clock.now_ns() - round(self._horizons.longest * 1e9)
        whole = len(files) == len(state.files)
        kept = head_rows.thinned(rows, before_ns=before_ns, whole=whole)
        return self._rewritten(self._heads, files, head_rows.as_table(kept))

    def _rewritten(self, table: BesideTable, files: Sequence[BesideFile], *parts: pa.Table) -> Change:
        write = write_heads if table is self._heads else write_removed
        added = [write(table.storage, rows, epoch=self._epoch) for rows in parts if len(rows)]
        return Change(added, {file.path for file in files}, operation="OPTIMIZE")


def highest(file: BesideFile, column: str) -> int:
    """Return the highest value of a column of numbers in a file."""
    bounds = file.bounds(column)
    return 0 if bounds is None else int(bounds[1])


def _lowest(file: BesideFile, column: str) -> int:
    bounds = file.bounds(column)
    return 0 if bounds is None else int(bounds[0])
