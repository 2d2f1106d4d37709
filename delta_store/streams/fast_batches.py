"""Fast batches that are still coming in: how far each one is and how often it is acknowledged.

Their messages are stored one by one as they come, so nothing of a batch is held here but its place. A batch is gone
after a restart, as it is with a single nats-server: what follows is then refused as of an unknown batch.
"""

from dataclasses import dataclass

from conf.limits import FAST_BATCH_FLOW_MAX, FAST_BATCH_SECONDS

_IDLE_NS = int(FAST_BATCH_SECONDS * 1e9)
_LOOK_NS = 1_000_000_000


@dataclass(slots=True)
class FastBatch:
    """One batch: batch sequences count its messages from 1."""

    gap_ok: bool
    flow_max: int
    """The publisher's own bound: an acknowledgement at least every so many messages."""
    flow: int
    """An acknowledgement is sent every so many messages."""
    touched_ns: int
    last: int = 0
    """The batch sequence of the last message that was looked at."""
    acked: int = 0
    """The batch sequence that was acknowledged last."""
    stream_seq: int = 0
    """Where the last stored message of the batch stands in the stream; 0 before the first."""

    def due(self, open_batches: int) -> bool:
        """Whether an acknowledgement of ``acked`` is due now that messages up to ``last`` were dealt with.

        How often they come is adapted each time, as nats-server does it: doubled or halved towards an equal share of
        what all open batches of the stream may have on their way.
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
        """The batch that is open under this id, if nothing was silent for too long."""
        batch = self.get(batch_id)
        if batch is not None and batch.touched_ns + _IDLE_NS < now_ns:
            del self[batch_id]
            return None
        return batch

    def forget(self, now_ns: int) -> None:
        """Drop the batches that nothing came for in a while; looked for once a second at most."""
        if not self or now_ns < self._look_ns:
            return
        self._look_ns = now_ns + _LOOK_NS
        for batch_id in [batch_id for batch_id, batch in self.items() if batch.touched_ns + _IDLE_NS < now_ns]:
            del self[batch_id]

    def open(self, batch_id: bytes, *, gap_ok: bool, flow: int, now_ns: int) -> FastBatch:
        """Open a batch; the only one of its stream begins with what its publisher wants, others more slowly."""
        first = 1 if self else min(FAST_BATCH_FLOW_MAX, flow)
        batch = self[batch_id] = FastBatch(gap_ok, flow, first, now_ns)
        return batch
