"""The deliveries of a push consumer: while its subject has interest, within the client's window."""

from collections.abc import Callable, Sequence
from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.delivery_run import DeliveryRun
from consumers.machine.effects import Effect, Status
from consumers.machine.pull_side import last_sequences
from consumers.machine.push_flow import FlowWindow

_EAGER: Final = "flow_control"


class PushSide:
    """The deliver subject of one consumer, with its window and heartbeats."""

    def __init__(
        self,
        config: MachineConfig,
        progress: ConsumerProgress,
        stream: str,
        *,
        now_ns: int,
        new_id: Callable[[], str],
    ) -> None:
        self.taken = False
        """Whether the deliver subject has interest."""
        self.window = FlowWindow() if config.flow_control else None
        self.due_ns = now_ns + config.idle_heartbeat if config.idle_heartbeat else 0
        """Time (ns) of the next heartbeat, 0 for never."""
        self.used_ns = 0
        """Always 0: only interest counts as use."""
        self._progress = progress
        self._new_id = new_id
        self._stream = stream
        self.configure(config)

    def configure(self, config: MachineConfig) -> None:
        """Apply a (new) configuration."""
        self._config = config
        self._subject = config.deliver_subject.encode()
        self._queue = config.deliver_group.encode()

    def room(self, limit: int, _now_ns: int) -> int:
        """Return the number of messages that may leave now, up to ``limit``."""
        return limit if self.taken and (self.window is None or self.window.open) else 0

    def serve(self, run: DeliveryRun, now_ns: int) -> tuple[int, list[Effect]]:
        """Send messages; return the number sent, and the effects."""
        if self._config.idle_heartbeat:
            self.due_ns = now_ns + self._config.idle_heartbeat
        if self.window is None:
            return len(run), [run.part(self._subject, range(len(run)), queue=self._queue)]
        effects: list[Effect] = []
        start = place = 0
        by_acks, most = self._config.ack_policy == _EAGER, self._config.max_ack_pending
        ack_pending = len(self._progress.pending.cseqs)
        while place < len(run) and self.window.open:
            held = ack_pending + max(0, place + 1 - run.again)
            ask = self.window.add(run.sizes[place], eager=by_acks and 0 < most <= held)
            place += 1
            if ask:
                effects.append(run.part(self._subject, range(start, place), queue=self._queue))
                effects.append(self._ask())
                start = place
        if place > start:
            effects.append(run.part(self._subject, range(start, place), queue=self._queue))
        return place, effects

    def _ask(self) -> Status:
        """Return a flow control request."""
        assert self.window is not None
        token = self._new_id()
        self.window.ask(token)
        return Status(self._subject, 100, "FlowControl Request", (), self._flow_subject(token).encode())

    def beat(self, now_ns: int) -> list[Effect]:
        """Return a heartbeat with the last sequences, if the subject has interest."""
        self.due_ns = now_ns + self._config.idle_heartbeat if self._config.idle_heartbeat else 0
        if not self.taken or not self.due_ns:
            return []
        open_token = self.window.token if self.window is not None else ""
        stalled = self._flow_subject(open_token) if open_token else ""
        said = last_sequences(*self._progress.last, stalled)
        effects: list[Effect] = [Status(self._subject, 100, "Idle Heartbeat", said)]
        waits_for_acks = self._config.ack_policy == _EAGER and self._progress.pending.cseqs
        if self.window is not None and waits_for_acks and not open_token:
            effects.append(self._ask())
        return effects

    def _flow_subject(self, token: str) -> str:
        return f"$JS.FC.{self._stream}.{self._config.name}.{token}"


def flow_headers(header: bytes) -> Sequence[int]:
    """Return the last consumer and stream sequence in a client's reply, 0 for none."""
    found = {b"nats-last-consumer": 0, b"nats-last-stream": 0}
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        text = value.strip()
        if name.lower() in found and text.isdigit() and len(text) <= 19:
            found[name.lower()] = int(text)
    return list(found.values())
