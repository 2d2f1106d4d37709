"""``heads`` and ``removed`` as the settle job keeps them: what fails there never stops a batch.

They are made of what ``messages`` holds, so a failure is logged, the tables are opened anew for the next batch, and it
makes up for what they lack.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from conf.clock import Clock
from conf.error_text import error_text
from conf.log import log
from delta_store.heads.head_tables import HeadTables
from delta_store.settled.settled_owner import SettledOwner


class FollowedHeads:
    """The tables behind one owner of ``messages``; they have all that it has from the start. One thread at a time."""

    def __init__(self, owner: SettledOwner, *, clock: Clock) -> None:
        self._owner, self._clock = owner, clock
        self._tables: HeadTables | None = None
        """None while they are not open."""
        self.settled()

    def settled(self, added: Sequence[str] | None = None) -> None:
        """Take up a batch that the owner has just committed, by the paths of its files; all that lacks without it."""
        with self._safely():
            if self._tables is None:
                tables = HeadTables.open(self._owner, clock=self._clock)
                tables.follow()
                self._tables = tables
            else:
                self._tables.follow(added)

    def maintain(self, *, applied: int = 0) -> None:
        """Do what is due; what was not live at version ``applied`` of ``messages`` has been deleted, 0 for unknown."""
        if self._tables is not None:
            with self._safely():
                self._tables.maintain(applied=applied)

    def vacuum(self) -> None:
        """Delete files and log entries that no version within the horizon needs."""
        if self._tables is not None:
            with self._safely():
                self._tables.vacuum()

    @contextmanager
    def _safely(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, messages has the batch
            self._tables = None
            log.warning("heads and removed are behind", error=error_text(error).partition("\n")[0])
