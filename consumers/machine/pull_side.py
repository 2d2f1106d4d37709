"""The distribution of a pull consumer's messages among its waiting pulls."""

from collections.abc import Callable
from itertools import chain
from typing import Final

from consumers.config.consumer_config import MachineConfig
from consumers.config.pull_requests import PullRefusal, PullSpec
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.delivery_run import DeliveryRun
from consumers.machine.effects import Effect, Status
from consumers.machine.priority_groups import Pin
from consumers.machine.waiting import Waiting, WaitingRequest

_DEFAULT_WAITING: Final = 512
_SHORT_QUEUE: Final = 16
_LOOK_NS: Final = 1_000_000_000
"""Shortest time between two searches of a long queue for expired pulls."""


class PullSide:
    """The waiting pulls of one consumer and the pin of its priority group."""

    def __init__(
        self,
        config: MachineConfig,
        progress: ConsumerProgress,
        pin: Pin,
        *,
        now_ns: int,
        interested: Callable[[bytes], bool],
    ) -> None:
        self._config = config
        self._progress = progress
        self._pin = pin
        self.waiting = Waiting(by_priority=config.priority_policy == "prioritized")
        self.used_ns = now_ns
        """Time (ns) of the last use: a pull, or a delivery."""
        self.due_ns = 0
        """Time (ns) at which :meth:`look` is due, 0 for never."""
        self.no_waits = 0
        """Number of pulls with ``no_wait``; never too low."""
        self._interested = interested
        self._looked_ns = 0

    @property
    def taken(self) -> bool:
        """Whether a pull waits."""
        return bool(self.waiting)

    def configure(self, config: MachineConfig) -> None:
        """Apply another configuration."""
        self._config = config

    def add(self, reply: bytes, spec: PullSpec, now_ns: int) -> list[Effect]:
        """Queue a pull, or reply to it. Raises :class:`PullRefusal`."""
        effects: list[Effect] = []
        room = self._config.max_waiting or _DEFAULT_WAITING
        if self._pin.id and spec.id:
            if spec.id != self._pin.id:
                raise PullRefusal(423, "Nats-Pin-Id mismatch")
            self._pin.prolong(now_ns)
        if len(self.waiting) >= room and now_ns - self._looked_ns > _LOOK_NS:
            effects += self.look(now_ns, at_end=False)
        if spec.no_wait:
            left = self._progress.position.num_pending + len(self._progress.pending.queue)
            if not left and not spec.expires:
                self.used_ns = now_ns
                return [*effects, Status(reply, 404, "No Messages")]
            if left:
                effects += self.look(now_ns, at_end=False)
                if left < sum(request.left for request in self.waiting):
                    self.used_ns = now_ns
                    return [*effects, Status(reply, 408, "Requests Pending")]
        if len(self.waiting) >= room:
            return effects if spec.idle_heartbeat else [*effects, Status(reply, 409, "Exceeded MaxWaiting")]
        request = WaitingRequest(reply, spec, now_ns=now_ns)
        self.waiting.add(request)
        self.no_waits += request.no_wait
        self.used_ns = now_ns
        self._expect(request)
        return effects

    def room(self, limit: int, now_ns: int) -> int:
        """Return the number of messages that the pulls take now, up to ``limit``."""
        policy, pending, room, left = self._config.priority_policy, self._progress.pending, 0, 0
        if policy == "overflow":
            left = self._progress.position.num_pending + bool(pending.queue.waiting)
        if policy == "pinned_client" and self._pin.id and not any(one.id for one in self.waiting):
            return 0
        for request in self.waiting:
            if room >= limit:
                break
            blocked = policy == "overflow" and not request.overflows(
                num_pending=left, num_ack_pending=len(pending.cseqs)
            )
            if not blocked and not request.expired(now_ns) and self._interested(request.reply):
                room += max(1, request.left)
        return min(room, limit)

    def serve(self, run: DeliveryRun, now_ns: int) -> tuple[int, list[Effect]]:
        """Distribute messages; return the number taken, and the effects."""
        effects = self._prune(now_ns)
        parts: dict[bytes, list[int]] = {}
        ends: list[Effect] = []
        place = 0
        while place < len(run) and self.waiting:
            requests = list(self.waiting)
            rounds = self._plain_rounds(requests, len(run) - place)
            if rounds:
                count = len(requests)
                for at, request in enumerate(requests):
                    places = range(place + at, place + rounds * count, count)
                    parts.setdefault(request.reply, []).extend(places)
                    self.waiting.serve_head(rounds).beat_later(now_ns)
                place += rounds * count
                continue
            fitting = self._fitting(requests[0], run, place) if len(requests) == 1 else 0
            if fitting:
                parts.setdefault(requests[0].reply, []).extend(range(place, place + fitting))
                self.waiting.serve_head(fitting).beat_later(now_ns)
                place += fitting
            chosen = self._next(run, place, now_ns, outs=(ends, effects))
            if ends:
                effects += chain(self._parts(run, parts), ends)
                parts, ends = {}, []
            if chosen is None:
                break
            parts.setdefault(chosen.reply, []).append(place)
            chosen.beat_later(now_ns)
            place += 1
            if chosen.left <= 0 and chosen.bytes_left > 0:
                done = Status(chosen.reply, 409, "Batch Completed", chosen.remainder())
                effects += [*self._parts(run, parts), done]
                parts = {}
        effects += self._parts(run, parts)
        if place:
            self.used_ns = now_ns
        return place, effects

    def look(self, now_ns: int, *, at_end: bool) -> list[Effect]:
        """End pulls that expired or have no interest any more, and send due heartbeats.

        ``at_end``: there is nothing to deliver, so pulls with ``no_wait`` end too.
        """
        effects: list[Effect] = []
        kept: list[WaitingRequest] = []
        self._looked_ns = now_ns
        for request in self.waiting:
            if request.expired(now_ns):
                effects.append(self._timeout(request))
            elif at_end and request.no_wait and (not request.expires_ns or request.served):
                effects.append(Status(request.reply, 404, "No Messages"))
                self.used_ns = max(self.used_ns, now_ns)
            elif self._interested(request.reply):
                kept.append(request)
                if 0 < request.beat_ns <= now_ns:
                    effects.append(Status(request.reply, 100, "Idle Heartbeat", last_sequences(*self._progress.last)))
                    request.beat_ns = now_ns + request.heartbeat
        self.waiting.keep(kept)
        self.no_waits = sum(request.no_wait for request in kept)
        self.due_ns = 0
        for request in kept:
            self._expect(request)
        return effects

    def forget_unwanted(self, now_ns: int) -> list[Effect]:
        """Drop pulls whose reply subject has no interest any more; a long queue is not searched each time."""
        if len(self.waiting) > _SHORT_QUEUE and now_ns - self._looked_ns < _LOOK_NS:
            return []
        self._looked_ns = now_ns
        return self._prune(now_ns)

    def close(self, *, for_now: bool) -> list[Effect]:
        """End all pulls with a status: the consumer is deleted or, with ``for_now``, the process ends."""
        self.due_ns = 0
        ended = self.waiting.clear()
        if for_now:
            return [Status(one.reply, 409, "Server Shutdown", one.remainder()) for one in ended]
        return [Status(one.reply, 409, "Consumer Deleted") for one in ended]

    def _plain_rounds(self, requests: list[WaitingRequest], messages: int) -> int:
        """Return how often each pull may take one message in turn, whatever the messages' sizes."""
        head = requests[0]
        if any(request.limited for request in requests):
            return 0
        policy = self._config.priority_policy
        if policy != "none":
            free = policy == "prioritized" or (policy == "pinned_client" and self._pin.id and head.id == self._pin.id)
            free = free or (policy == "overflow" and head.min_pending <= 0 and head.min_ack_pending <= 0)
            if len(requests) > 1 or not free:
                return 0
        return min(messages // len(requests), *(max(1, request.left) for request in requests))

    def _fitting(self, request: WaitingRequest, run: DeliveryRun, place: int) -> int:
        """Return the number of messages that the only pull surely takes before its last, and count their bytes."""
        if self._config.priority_policy != "none" or not request.limited:
            return 0
        fitting, left = 0, request.bytes_left
        for size in run.sizes[place : min(len(run) - 1, place + request.left - 1)]:
            if size >= left:
                break
            left -= size
            fitting += 1
        request.bytes_left = left
        return fitting

    def _next(
        self, run: DeliveryRun, place: int, now_ns: int, *, outs: tuple[list[Effect], list[Effect]]
    ) -> WaitingRequest | None:
        """Return the pull that gets a message, which is counted for it; None if no pull may have it.

        ``outs`` get the effects behind the messages so far, and those in front of them.
        """
        out, ahead = outs
        waiting, pin, policy = self.waiting, self._pin, self._config.priority_policy
        unpinned = policy == "pinned_client" and not pin.id
        cycled = 0
        while waiting:
            request, before = waiting.head, pin.id
            if request.id and (unpinned or (pin.id and request.id != pin.id)):
                out.append(Status(request.reply, 423, "Nats-Wrong-Pin-Id", request.remainder()))
                waiting.drop_head()
                continue
            blocked = bool(pin.id) and not request.id and not unpinned
            if unpinned:
                ahead.extend(pin.assign(request, now_ns))
            elif policy == "overflow":
                fresh = max(0, place - run.again)
                left = run.pendings[place] + 1
                held = len(self._progress.pending.cseqs) + fresh
                blocked = not request.overflows(num_pending=left, num_ack_pending=held)
            if blocked:
                waiting.cycle()
                cycled += 1
                if cycled >= len(waiting):
                    return None
            elif self._weighed(request, run, place, out=out):
                return waiting.serve_head()
            elif unpinned and pin.id != before:
                pin.release()
        return None

    def _weighed(self, request: WaitingRequest, run: DeliveryRun, place: int, *, out: list[Effect]) -> bool:
        """Count a message's bytes for the head; return False if it is too large, which ends the pull."""
        if not request.limited:
            return True
        size = run.sizes[place]
        if size > request.bytes_left:
            out.append(Status(request.reply, 409, "Message Size Exceeds MaxBytes", request.remainder()))
            self.waiting.drop_head()
            return False
        request.bytes_left -= size
        if not request.bytes_left:
            request.left = 1
        return True

    def _parts(self, run: DeliveryRun, parts: dict[bytes, list[int]]) -> list[Effect]:
        pin_id = self._pin.id if self._config.priority_policy == "pinned_client" else None
        return [run.part(reply, sorted(places), pin_id=pin_id) for reply, places in parts.items()]

    def _prune(self, now_ns: int) -> list[Effect]:
        """End pulls that expired or have no interest any more."""
        kept = [one for one in self.waiting if not one.expired(now_ns) and self._interested(one.reply)]
        if len(kept) == len(self.waiting):
            return []
        effects: list[Effect] = [self._timeout(one) for one in self.waiting if one.expired(now_ns)]
        self.waiting.keep(kept)
        return effects

    def _timeout(self, request: WaitingRequest) -> Status:
        self.used_ns = max(self.used_ns, request.expires_ns)
        return Status(request.reply, 408, "Request Timeout", request.remainder())

    def _expect(self, request: WaitingRequest) -> None:
        for due_ns in (request.expires_ns, request.beat_ns):
            if due_ns and (not self.due_ns or due_ns < self.due_ns):
                self.due_ns = due_ns


def last_sequences(consumer_seq: int, stream_seq: int, stalled: str = "") -> tuple[tuple[str, str], ...]:
    """Return the headers of an idle heartbeat."""
    shown = (("Nats-Last-Consumer", str(consumer_seq)), ("Nats-Last-Stream", str(stream_seq)))
    return (*shown, ("Nats-Consumer-Stalled", stalled)) if stalled else shown
