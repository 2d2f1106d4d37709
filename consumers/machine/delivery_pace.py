"""The pace of deliveries: a rate limit, or replay at the original pace."""

from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.machine.read_position import ReadPosition
from consumers.machine.replay_pace import OriginalPace, RateLimit
from consumers.machine.stream_view import StreamView

_BURST_BYTES: Final = 1024 * 1024
"""The burst of a rate limit: nats-server's default max_payload."""
_ACK_SUBJECT: Final = 60
"""Approximate bytes that an ack subject adds to a message."""


class DeliveryPace:
    """The pace of one consumer's deliveries."""

    __slots__ = ("_original", "_rate", "_stream", "due_ns")

    def __init__(self, config: MachineConfig, stream: StreamView) -> None:
        self._stream = stream
        self._rate = RateLimit(config.rate_limit_bps, burst=_BURST_BYTES) if config.rate_limit_bps else None
        original = config.replay_policy == "original"
        self._original = OriginalPace(stream.durable_seq) if original else None
        self.due_ns = 0
        """Time (ns) at which the next message may leave, 0 for at once."""

    def configure(self, config: MachineConfig) -> None:
        """Apply another rate limit; the replay policy never changes."""
        self._rate = RateLimit(config.rate_limit_bps, burst=_BURST_BYTES) if config.rate_limit_bps else None
        self.due_ns = 0

    @property
    def limits(self) -> bool:
        """Whether there is any limit."""
        return self._rate is not None or self._original is not None

    def cut(self, again: list[int], fresh: list[int]) -> tuple[list[int], list[int]]:
        """Return those redeliveries and first deliveries that may leave now, at least one."""
        if not self.limits:
            return again, fresh
        seqs = again + fresh
        count = min(1, len(seqs))
        if self._original is not None:
            times = [self._stream.index.live.ts_of(seq) for seq in seqs]
            while count < len(seqs) and times[count] - times[count - 1] <= 1_000_000:
                count += 1
        if self._rate is not None and seqs:
            free = self._rate.tokens - self._size(seqs[0])
            place = 1
            while place < count or (self._original is None and place < len(seqs)):
                free -= self._size(seqs[place])
                if free < 0:
                    break
                place += 1
            count = place
        return again[:count], fresh[: max(0, count - len(again))]

    def expect(self, seqs: list[int], position: ReadPosition, now_ns: int) -> None:
        """Compute when the next message may leave."""
        if not seqs:
            if self._original is not None and self.due_ns <= now_ns and self._original.over(position.next_seq):
                self._original = None
            return
        free_ns = now_ns
        if self._rate is not None:
            free_ns = self._rate.free_at(self._size(seqs[0]), now_ns)
        if self._original is not None:
            free_ns = max(free_ns, self._original.free_at(self._stream.index.live.ts_of(seqs[0]), now_ns))
        self.due_ns = free_ns if free_ns > now_ns else 0

    def left(self, sizes: int, last_ts_ns: int, now_ns: int) -> None:
        """Count delivered messages of ``sizes`` bytes, the last of which was stored at ``last_ts_ns``."""
        if self._rate is not None:
            self._rate.take(sizes, now_ns)
        if self._original is not None:
            self._original.sent(last_ts_ns, now_ns)
        self.due_ns = 0

    def _size(self, seq: int) -> int:
        return self._stream.content_size(seq) + _ACK_SUBJECT
