"""Uncommitted atomic batches (ADR-50): in memory only, so a restart drops them."""

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
    """The messages of one batch so far."""

    touched_ns: int
    last_seq: int = 0
    """Batch sequence of the last message."""
    messages: list[BatchMessage] = field(default_factory=list)
    bytes: int = 0


class Abandoned(NamedTuple):
    """A batch that ended without a commit."""

    batch_id: str
    reason: str
    """``timeout``, ``large``, ``incomplete`` or ``unsupported``, as in nats-server's advisory."""


class OpenBatches(dict[str, OpenBatch]):
    """The open batches of one stream by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self._abandoned: list[Abandoned] = []

    def abandon(self, batch_id: str, reason: str) -> None:
        """Drop a batch and record the reason for an advisory."""
        del self[batch_id]
        self._abandoned.append(Abandoned(batch_id, reason))

    def forget(self, now_ns: int) -> None:
        """Abandon the batches that timed out."""
        before = now_ns - int(ATOMIC_BATCH_SECONDS * 1e9)
        for batch_id in [batch_id for batch_id, batch in self.items() if batch.touched_ns < before]:
            self.abandon(batch_id, "timeout")

    def take_abandoned(self) -> list[Abandoned]:
        """Return the batches abandoned since the last call; call it after each change."""
        abandoned, self._abandoned = self._abandoned, []
        return abandoned

    @property
    def is_full(self) -> bool:
        """Whether the batches exceed :data:`ATOMIC_BATCH_BYTES_MAX`."""
        return sum(batch.bytes for batch in self.values()) > ATOMIC_BATCH_BYTES_MAX
