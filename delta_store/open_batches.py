"""Atomic batches that are still coming in: held in memory only, gone after a restart, as far as anyone has seen."""

from dataclasses import dataclass, field
from typing import NamedTuple

from conf.limits import ATOMIC_BATCH_BYTES_MAX, ATOMIC_BATCH_SECONDS


class BatchMessage(NamedTuple):
    """One message of a batch."""

    subject: str
    header: bytes
    payload: bytes


@dataclass(slots=True)
class OpenBatch:
    """One batch: its messages so far."""

    touched_ns: int
    last_seq: int = 0
    """The batch sequence of the last message."""
    messages: list[BatchMessage] = field(default_factory=list)
    bytes: int = 0


class OpenBatches(dict[str, OpenBatch]):
    """The open batches of one stream by their ids."""

    def forget(self, now_ns: int) -> None:
        """Drop the batches that nothing was added to for a while."""
        before = now_ns - int(ATOMIC_BATCH_SECONDS * 1e9)
        for batch_id in [batch_id for batch_id, batch in self.items() if batch.touched_ns < before]:
            del self[batch_id]

    @property
    def is_full(self) -> bool:
        """Whether they hold more than may be held."""
        return sum(batch.bytes for batch in self.values()) > ATOMIC_BATCH_BYTES_MAX
