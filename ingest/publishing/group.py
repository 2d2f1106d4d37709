"""The group: the rows of one journal commit, and the replies that may leave only after it."""

from dataclasses import dataclass, field
from typing import Any

from delta_store.streams.open_batches import Abandoned
from delta_store.values.journal_errors import JournalError
from delta_store.values.records import RowColumns


@dataclass(slots=True)
class Group:
    """Effects in the order of their decisions."""

    rows: RowColumns = field(default_factory=RowColumns)
    replies: list[bytes] = field(default_factory=list)
    """Encoded leaf frames, sent in order when the rows are durable."""
    deferred: list[Any] = field(default_factory=list)
    """Reads that show this group's state; their type is known to the one who releases the group."""
    abandoned: list[tuple[str, Abandoned]] = field(default_factory=list)
    """Abandoned batches with their streams, for advisories."""
    bytes: int = 0
    """Payload and header bytes of the rows."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit and nothing to send."""
        return not (len(self.rows) or self.replies or self.deferred)


@dataclass(slots=True)
class Gathering:
    """The gathering group, to which decisions are appended, and the one in flight, which is being committed."""

    group: Group = field(default_factory=Group)
    in_flight: Group | None = None
    """The group taken and not released yet."""
    blocked: JournalError | None = None
    """The error that blocks decisions which need a commit, None for none."""

    def take(self) -> Group:
        """Begin a new group and return the gathered one."""
        taken, self.group = self.group, Group()
        return taken

    @property
    def pending_rows(self) -> int:
        """Number of rows decided and not durable."""
        return len(self.group.rows) + (len(self.in_flight.rows) if self.in_flight else 0)

    @property
    def pending_bytes(self) -> int:
        """Payload and header bytes decided and not durable."""
        return self.group.bytes + (self.in_flight.bytes if self.in_flight else 0)

    @property
    def hidden(self) -> set[str]:
        """Streams whose state in memory is not durable."""
        in_flight = self.in_flight.rows.stream if self.in_flight is not None else ()
        return {*in_flight, *self.group.rows.stream}

    @property
    def idle(self) -> bool:
        """Whether everything decided is durable and released."""
        return self.in_flight is None and self.group.empty
