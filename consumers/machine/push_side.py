"""How a push consumer sends: while somebody listens, within the client's window, at the configured pace."""

from collections.abc import Callable, Sequence
from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.machine.delivery_run import DeliveryRun
from consumers.machine.effects import Effect, Status
from consumers.machine.pull_side import last_sequences
from consumers.machine.push_flow import FlowWindow

_EAGER: Final = "flow_control"


class PushSide:
    """The deliver subject of one consumer."""

    def __init__(self, config: MachineConfig, stream: str, *, now_ns: int, new_id: Callable[[], str]) -> None:
        self.active = False
        """Whether somebody listens."""
        self.window = FlowWindow() if config.flow_control else None
        self.beat_ns = now_ns + config.idle_heartbeat if config.idle_heartbeat else 0
        """When the next heartbeat is due, 0 for never."""
        self._new_id = new_id
        self._stream = stream
        self.configure(config)

    def configure(self, config: MachineConfig) -> None:
        """Take a (new) configuration."""
        self.config = config
        self.subject = config.deliver_subject.encode()
        self._queue = config.deliver_group.encode()

    def room(self, limit: int) -> int:
        """How many messages may leave now, up to ``limit``."""
        return limit if self.active and (self.window is None or self.window.open) else 0

    def serve(self, run: DeliveryRun, now_ns: int, *, ack_pending: int) -> tuple[int, list[Effect]]:
        """Send messages; returns how many of them, and the effects."""
        if self.config.idle_heartbeat:
            self.beat_ns = now_ns + self.config.idle_heartbeat
        if self.window is None:
            return len(run), [run.part(self.subject, range(len(run)), queue=self._queue)]
        effects: list[Effect] = []
        start = place = 0
        by_acks, most = self.config.ack_policy == _EAGER, self.config.max_ack_pending
        while place < len(run) and self.window.open:
            held = ack_pending + max(0, place + 1 - run.again)
            ask = self.window.add(run.sizes[place], eager=by_acks and 0 < most <= held)
            place += 1
            if ask:
                effects.append(run.part(self.subject, range(start, place), queue=self._queue))
                effects.append(self.ask())
                start = place
        if place > start:
            effects.append(run.part(self.subject, range(start, place), queue=self._queue))
        return place, effects

    def ask(self) -> Status:
        """A flow control request."""
        assert self.window is not None
        token = self._new_id()
        self.window.ask(token)
        return Status(self.subject, 100, "FlowControl Request", (), self._flow_subject(token).encode())

    def beat(self, now_ns: int, *, last: tuple[int, int], ack_pending: int) -> list[Effect]:
        """A heartbeat, if somebody listens, with the last sequences."""
        self.beat_ns = now_ns + self.config.idle_heartbeat if self.config.idle_heartbeat else 0
        if not self.active or not self.beat_ns:
            return []
        open_token = self.window.token if self.window is not None else ""
        stalled = self._flow_subject(open_token) if open_token else ""
        effects: list[Effect] = [Status(self.subject, 100, "Idle Heartbeat", last_sequences(*last, stalled))]
        if self.window is not None and self.config.ack_policy == _EAGER and ack_pending and not open_token:
            effects.append(self.ask())
        return effects

    def _flow_subject(self, token: str) -> str:
        return f"$JS.FC.{self._stream}.{self.config.name}.{token}"


def flow_headers(header: bytes) -> Sequence[int]:
    """Last consumer and stream sequence that a client's answer names, 0 for none."""
    found = {b"nats-last-consumer": 0, b"nats-last-stream": 0}
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        text = value.strip()
        if name.lower() in found and text.isdigit() and len(text) <= 19:
            found[name.lower()] = int(text)
    return list(found.values())
