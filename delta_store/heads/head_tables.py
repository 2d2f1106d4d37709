"""The tables ``heads`` and ``removed``, kept behind ``messages`` by its owner.

Order of commits: ``messages``, then ``removed``, then ``heads``. So a row of ``heads`` never tells of what is not in
``messages``, ``removed`` has all that belongs to it, and rows of ``removed`` that are ahead say from which version on
they hold. The position is the newest row of each stream in ``heads``: whatever failed or was killed between, the next
batch, or the next start, reads the settled rows above it and makes up for them. Nothing else is recorded anywhere.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Self

from conf.clock import Clock
from delta_store.beside.beside_table import BesideTable
from delta_store.entries import head_rows, removed_rows
from delta_store.entries.beside_entry import Change, NewTable
from delta_store.entries.head_rows import Deletes, HeadRow
from delta_store.heads import settled_news
from delta_store.heads.heads_upkeep import HeadsUpkeep, highest
from delta_store.heads.known_deletes import KnownDeletes
from delta_store.heads.settled_news import News, NewsReader
from delta_store.heads.stored_rows import read_rows, table_beside, write_heads, write_removed
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.open_storage import open_storage
from delta_store.values.schemas import (
    HEADS_COLUMNS,
    HEADS_FOLDER,
    HEADS_SCHEMA,
    REMOVED_COLUMNS,
    REMOVED_FOLDER,
    REMOVED_SCHEMA,
    delta_schema_string,
)

HEADS: Final = NewTable(HEADS_FOLDER, delta_schema_string(HEADS_COLUMNS), head_rows.STATISTICS)
REMOVED: Final = NewTable(REMOVED_FOLDER, delta_schema_string(REMOVED_COLUMNS), removed_rows.STATISTICS)


class HeadTables:
    """Both tables as the owner of ``messages`` writes them. One thread at a time."""

    def __init__(self, owner: SettledOwner, heads: BesideTable, removed: BesideTable, *, clock: Clock) -> None:
        self._owner, self._heads, self._removed, self._clock = owner, heads, removed, clock
        self._upkeep = HeadsUpkeep(heads, removed, epoch=owner.epoch, clock=clock, horizons=owner.horizons)
        self._news = NewsReader(owner.storage)
        self._rows: dict[str, HeadRow] = {}
        self._followed = -1
        """The version of ``messages`` up to which the tables have all."""
        self._deletes = KnownDeletes(owner.storage, {})
        self._is_behind = True
        self._know(head_rows.newest(read_rows(heads.storage, heads.state.files.values(), HEADS_SCHEMA)))

    @classmethod
    def open(cls, owner: SettledOwner, *, clock: Clock) -> Self:
        """Open the tables beside the owner's, made if there are none. Raises as :meth:`BesideTable.open`."""

        def table(new: NewTable) -> BesideTable:
            storage = open_storage(table_beside(owner.storage.uri, new.name), owner.storage.options)
            longest = owner.horizons.longest
            return BesideTable.open(storage, new, epoch=owner.epoch, clock=clock, horizon_seconds=longest)

        removed = table(REMOVED)
        return cls(owner, table(HEADS), removed, clock=clock)

    def follow(self, added: Iterable[str] | None = None) -> None:
        """Bring the tables to the owner's version.

        ``added`` are the paths of the files of the batch that was just committed. Without them, or after a failure, all
        files that may hold more than the tables know are read. Raises what storage and reading raise.
        """
        snapshot, marks = self._owner.snapshot, self._owner.note.watermarks
        if self._is_behind and self._contradicts():
            self._begin_anew()
        deletes = self._deletes.up_to(snapshot.version, marks, appended=added is not None)
        if added is None or self._is_behind:
            news = settled_news.of_table(self._rows, snapshot, marks)
        else:
            news = settled_news.of_batch(self._rows, [snapshot.files[path] for path in added])
        self._is_behind = True
        self._add_heads(news, deletes, removed_from=self._add_effects(news))
        self._followed, self._is_behind = snapshot.version, False

    def maintain(self, *, applied: int) -> None:
        """See :meth:`HeadsUpkeep.maintain`."""
        self._upkeep.maintain(applied)

    def vacuum(self) -> None:
        """Delete files and log entries that no version within the horizon needs.

        Rows of streams that rest are written anew before the versions that they name are out of reach.
        """
        now_ns, longest = self._clock.now_ns(), self._owner.horizons.longest
        if not self._is_behind:
            place = (self._owner.snapshot.version, self._removed.state.version, now_ns)
            self._add_rows(
                head_rows.renewed(self._rows.values(), before_ns=now_ns - round(longest * 1e9) // 2, place=place)
            )
        for table in (self._removed, self._heads):
            table.vacuum(longest)

    def _know(self, rows: dict[str, HeadRow]) -> None:
        self._rows = rows
        self._followed = max((row.version for row in rows.values()), default=-1)
        self._deletes = KnownDeletes(self._owner.storage, rows)

    def _contradicts(self) -> bool:
        """Whether the tables tell of what ``messages`` has not: a torn end was set aside, or a backup is back."""
        marks = self._owner.note.watermarks
        ahead = any(row.stream not in marks or row.position > marks[row.stream].position for row in self._rows.values())
        files = [file for table in (self._removed, self._heads) for file in table.state.files.values()]
        return ahead or any(highest(file, "version") > self._owner.snapshot.version for file in files)

    def _begin_anew(self) -> None:
        for table in (self._removed, self._heads):
            if table.state.files:
                table.commit(lambda state: Change(removed=state.files.keys(), operation="DELETE"))
        self._know({})

    def _add_effects(self, news: Sequence[News]) -> frozenset[str]:
        """Return the streams that have any."""
        version = self._owner.snapshot.version
        rows = removed_rows.joined(self._news.effects(one, version) for one in news)
        streams = frozenset(rows["stream"].unique().to_pylist())
        ahead = [file for file in self._removed.state.files.values() if highest(file, "version") > self._followed]
        if ahead:
            rows = removed_rows.unknown(rows, read_rows(self._removed.storage, ahead, REMOVED_SCHEMA))
        if len(rows):
            file = write_removed(self._removed.storage, rows, epoch=self._owner.epoch)
            self._removed.commit(lambda _: Change((file,)))
        return streams

    def _add_heads(self, news: Sequence[News], deletes: Deletes, *, removed_from: AbstractSet[str]) -> None:
        marks = self._owner.note.watermarks
        place = (self._owner.snapshot.version, self._removed.state.version, self._clock.now_ns())
        rows = []
        for one in news:
            now = self._news.settled(one, marks[one.stream])
            row = head_rows.next_row(one.stream, one.before, now, deletes=deletes, followed=self._followed, place=place)
            if one.stream in removed_from or head_rows.tells_more(row, one.before):
                rows.append(row)
        self._add_rows(rows)

    def _add_rows(self, rows: Sequence[HeadRow]) -> None:
        if rows:
            file = write_heads(self._heads.storage, head_rows.as_table(rows), epoch=self._owner.epoch)
            self._heads.commit(lambda _: Change((file,)))
            self._rows |= {row.stream: row for row in rows}
