"""What becomes durable together: rows of one journal commit, and the replies that may leave only after it."""

from dataclasses import dataclass, field
from typing import Any

from delta_store.streams.open_batches import Abandoned
from delta_store.values.journal_errors import JournalError
from delta_store.values.records import RowColumns


@dataclass(slots=True)
class Group:
    """Decided effects in the order in which they were decided."""

    rows: RowColumns = field(default_factory=RowColumns)
    replies: list[bytes] = field(default_factory=list)
    """Encoded leaf frames, sent in order once the rows are durable."""
    deferred: list[Any] = field(default_factory=list)
    """Reads whose answers were computed from this group's state; whoever releases the group knows their type."""
    abandoned: list[tuple[str, Abandoned]] = field(default_factory=list)
    """Batches that were given up, each with its stream, until somebody has told of them."""
    bytes: int = 0
    """Payload and header bytes of the rows."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit and nothing to send."""
        return not (len(self.rows) or self.replies or self.deferred)


@dataclass(slots=True)
class Gathering:
    """The group that gathers and the one that is on its way: decisions add to the first, commits take it."""

    group: Group = field(default_factory=Group)
    in_flight: Group | None = None
    """Taken, and not released yet."""
    blocked: JournalError | None = None
    """Why nothing new may be decided that needs a commit, None when all may be."""

    def take(self) -> Group:
        """Begin a new group and give the one that gathered."""
        taken, self.group = self.group, Group()
        return taken

    @property
    def pending_rows(self) -> int:
        """Rows decided and not yet durable."""
        return len(self.group.rows) + (len(self.in_flight.rows) if self.in_flight else 0)

    @property
    def pending_bytes(self) -> int:
        """Payload and header bytes decided and not yet durable."""
        return self.group.bytes + (self.in_flight.bytes if self.in_flight else 0)

    @property
    def hidden(self) -> set[str]:
        """Streams that memory shows otherwise than they are on the disk."""
        in_flight = self.in_flight.rows.stream if self.in_flight is not None else ()
        return {*in_flight, *self.group.rows.stream}

    @property
    def idle(self) -> bool:
        """Whether all that was decided is durable and released."""
        return self.in_flight is None and self.group.empty
