"""The files of a table beside ``messages`` rewritten: without some rows, or small ones together."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from delta_store.beside.beside_table import BesideTable, write_file
from delta_store.entries import beside_file
from delta_store.entries.beside_entry import BesideFile, BesideState, Change
from delta_store.typed.table_columns import STATISTICS

SMALL_FILE_BYTES: Final = 16 * 1024 * 1024
SMALL_FILES_MIN: Final = 16
ROUND_BYTES_MAX: Final = 128 * 1024 * 1024
"""Small files that are merged at a time, in bytes: they are held in memory."""

Partition = tuple[tuple[str, str | None], ...]
Chosen = Callable[[pa.ChunkedArray], npt.ArrayLike]
"""Which of some rows stay, by one of their columns."""


class RowFiles:
    """The files of one table, whose rows have these columns, for the owner of ``messages`` with this epoch."""

    def __init__(self, table: BesideTable, schema: pa.Schema, *, epoch: int) -> None:
        self._table, self._schema, self._epoch = table, schema, epoch

    def keep(self, column: str, chosen: Chosen) -> bool:
        """Commit the removal of the rows that are not ``chosen``; return whether there were any."""

        def plan(state: BesideState) -> Change | None:
            gone, added = self.without(state, column, chosen)
            return Change(added, gone, operation="DELETE") if gone else None

        return self._table.commit(plan) is not None

    def without(self, state: BesideState, column: str, chosen: Chosen) -> tuple[set[str], list[BesideFile]]:
        """Return the files with rows that are not ``chosen``, and new files of those in them that are."""
        gone: set[str] = set()
        added: list[BesideFile] = []
        for path, file in state.files.items():
            mask = np.asarray(chosen(self.read(file, column)[column]), dtype=bool)
            if not mask.all():
                gone.add(path)
                added += self._written(self.read(file).filter(pa.array(mask)), file.partition)
        return gone, added

    def merge(self) -> None:
        """Commit the small files of partitions that have many as larger ones."""

        def plan(state: BesideState) -> Change | None:
            gone: set[str] = set()
            added: list[BesideFile] = []
            for partition, files in _small_files(state.files.values()):
                rows = pa.concat_tables([self.read(file) for file in files])
                added += self._written(rows.sort_by("seq"), partition)
                gone |= {file.path for file in files}
            return Change(added, gone, operation="OPTIMIZE", data_change=False) if gone else None

        self._table.commit(plan)

    def read(self, file: BesideFile, *columns: str) -> pa.Table:
        """Return the rows of a file, with these columns or all."""
        schema = pa.schema([self._schema.field(name) for name in columns]) if columns else self._schema
        return beside_file.decode(self._table.storage.read(file.path), schema)

    def _written(self, rows: pa.Table, partition: Partition) -> Iterator[BesideFile]:
        if rows.num_rows:
            values = [(name, value or "") for name, value in partition]
            yield write_file(self._table.storage, rows, epoch=self._epoch, names=STATISTICS, partition=values)


def _small_files(files: Iterable[BesideFile]) -> Iterator[tuple[Partition, list[BesideFile]]]:
    """Iterate over the partitions with many small files, as many of these as are merged at a time."""
    by_partition: dict[Partition, list[BesideFile]] = {}
    for file in files:
        if file.size < SMALL_FILE_BYTES:
            by_partition.setdefault(file.partition, []).append(file)
    left = ROUND_BYTES_MAX
    for partition, mine in by_partition.items():
        chosen: list[BesideFile] = []
        for file in sorted(mine, key=lambda file: file.bounds("seq") or (0, 0)) if len(mine) >= SMALL_FILES_MIN else ():
            if left > 0:
                chosen.append(file)
                left -= file.size
        if len(chosen) >= SMALL_FILES_MIN:
            yield partition, chosen
