"""Open fast batches: how far each one is and how often it is acknowledged.

Their messages are stored as they come, so only a batch's position is held here. A batch is lost at a restart, as with a
single nats-server: its next message is then refused as of an unknown batch.
"""

from dataclasses import dataclass

from conf.limits import FAST_BATCH_FLOW_MAX, FAST_BATCH_SECONDS

_IDLE_NS = int(FAST_BATCH_SECONDS * 1e9)
_LOOK_NS = 1_000_000_000


@dataclass(slots=True)
class FastBatch:
    """The position of one batch: batch sequences count its messages from 1."""

    gap_ok: bool
    flow_max: int
    """The publisher's own bound on :attr:`flow`."""
    flow: int
    """Number of messages between two acknowledgements."""
    touched_ns: int
    last: int = 0
    """Batch sequence of the last message received."""
    acked: int = 0
    """Batch sequence of the last acknowledgement."""
    stream_seq: int = 0
    """Stream sequence of the batch's last stored message; 0 before the first."""

    def due(self, open_batches: int) -> bool:
        """Count an acknowledgement as sent if one is due after messages up to ``last``; return whether it is.

        The interval is adapted each time, as in nats-server: doubled or halved towards an equal share of what all open
        batches of the stream may have in flight.
        """
        if self.last < self.acked + self.flow:
            return False
        self.acked += (self.last - self.acked) // self.flow * self.flow
        share = min(max(FAST_BATCH_FLOW_MAX // open_batches, 1), self.flow_max)
        self.flow = min(self.flow * 2, share) if self.flow < share else max(self.flow // 2, share)
        return True


class FastBatches(dict[bytes, FastBatch]):
    """The open fast batches of one stream by their ids."""

    __slots__ = ("_look_ns",)

    def __init__(self) -> None:
        super().__init__()
        self._look_ns = 0

    def find(self, batch_id: bytes, now_ns: int) -> FastBatch | None:
        """Return the open batch of this id; None after a timeout."""
        batch = self.get(batch_id)
        if batch is not None and batch.touched_ns + _IDLE_NS < now_ns:
            del self[batch_id]
            return None
        return batch

    def forget(self, now_ns: int) -> None:
        """Drop the batches that timed out; checks once a second at most."""
        if not self or now_ns < self._look_ns:
            return
        self._look_ns = now_ns + _LOOK_NS
        for batch_id in [batch_id for batch_id, batch in self.items() if batch.touched_ns + _IDLE_NS < now_ns]:
            del self[batch_id]

    def open(self, batch_id: bytes, *, gap_ok: bool, flow: int, now_ns: int) -> FastBatch:
        """Open a batch; a stream's only batch starts at its publisher's flow, others at 1."""
        first = 1 if self else min(FAST_BATCH_FLOW_MAX, flow)
        batch = self[batch_id] = FastBatch(gap_ok, flow, first, now_ns)
        return batch
