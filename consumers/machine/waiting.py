"""The waiting pulls of one consumer, in the order in which they are served."""

from collections.abc import Iterator

from consumers.config.pull_requests import PRIORITY_LAST, PullSpec


class WaitingRequest:
    """One waiting pull."""

    __slots__ = (
        "beat_ns", "bytes_left", "expires_ns", "group", "has_group", "heartbeat", "id", "left", "limited",
        "min_ack_pending", "min_pending", "no_wait", "priority", "reply", "served",
    )  # fmt: skip

    def __init__(self, reply: bytes, spec: PullSpec, *, now_ns: int) -> None:
        self.reply = reply
        self.left = spec.batch
        self.served = 0
        self.bytes_left = spec.max_bytes
        self.limited = spec.max_bytes > 0
        self.expires_ns = now_ns + spec.expires if spec.expires else 0
        self.heartbeat = spec.idle_heartbeat
        self.beat_ns = now_ns + spec.idle_heartbeat if spec.idle_heartbeat > 0 else 0
        self.no_wait = spec.no_wait
        self.has_group = spec.is_json
        self.group = spec.group
        self.id = spec.id
        self.min_pending = spec.min_pending
        self.min_ack_pending = spec.min_ack_pending
        self.priority = spec.priority if spec.is_json else PRIORITY_LAST

    def expired(self, now_ns: int) -> bool:
        """Whether it has expired."""
        return 0 < self.expires_ns <= now_ns

    def beat_later(self, now_ns: int) -> None:
        """Restart the heartbeat's interval after a delivery."""
        if self.left > 0 and self.heartbeat > 0:
            self.beat_ns = now_ns + self.heartbeat

    def remainder(self) -> tuple[tuple[str, str], ...]:
        """Return the headers with the rest of its batch and bytes."""
        return ("Nats-Pending-Messages", str(self.left)), ("Nats-Pending-Bytes", str(self.bytes_left))

    def overflows(self, *, num_pending: int, num_ack_pending: int) -> bool:
        """Whether an overflow group's limits let it have messages: one reached limit is enough."""
        if self.min_pending <= 0 and self.min_ack_pending <= 0:
            return True
        return 0 < self.min_pending <= num_pending or 0 < self.min_ack_pending <= num_ack_pending


class Waiting:
    """The queue of pulls, by arrival or priority; a pull that got a message goes behind its equals."""

    __slots__ = ("_by_priority", "_requests")

    def __init__(self, *, by_priority: bool) -> None:
        self._requests: list[WaitingRequest] = []
        self._by_priority = by_priority

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[WaitingRequest]:
        return iter(self._requests)

    @property
    def head(self) -> WaitingRequest:
        """The next pull to be served."""
        return self._requests[0]

    def add(self, request: WaitingRequest) -> None:
        """Add a pull behind those of the same or a higher priority."""
        held = self._requests
        if not self._by_priority or not held or held[-1].priority <= request.priority:
            held.append(request)
        else:
            held.insert(next(at for at, one in enumerate(held) if one.priority > request.priority), request)

    def cycle(self) -> None:
        """Move the head behind all others."""
        self._requests.append(self._requests.pop(0))

    def drop_head(self) -> WaitingRequest:
        """Remove and return the head."""
        return self._requests.pop(0)

    def serve_head(self, messages: int = 1) -> WaitingRequest:
        """Count messages for the head; it leaves when its batch is complete, else goes behind its equals."""
        request = self._requests.pop(0)
        request.served += messages
        request.left -= messages
        if request.left > 0:
            self.add(request)
        return request

    def keep(self, kept: list[WaitingRequest]) -> None:
        """Replace the queue by ``kept``, which is in order."""
        self._requests = kept

    def clear(self) -> list[WaitingRequest]:
        """Remove and return all."""
        taken, self._requests = self._requests, []
        return taken
