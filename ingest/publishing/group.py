"""What becomes durable together: rows of one journal commit, and the replies that may leave only after it."""

from dataclasses import dataclass, field
from typing import Any

from delta_store.streams.open_batches import Abandoned
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
