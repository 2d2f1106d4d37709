"""A hub in memory: one ordered link to the gateway that runs, and clients' inboxes on the other side."""

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

from ingest.protocol.interest import InterestTable
from ingest.protocol.leaf_protocol import LEAF
from ingest.protocol.wire_protocol import Interest, WireMessage, WireParser
from tests.sim.sim_book import Held
from tests.sim.virtual_loop import VirtualLoop

Listener = Callable[[WireMessage], None]
_LATENCIES = (0.0, 0.0, 0.0003, 0.003)


class Subscription(NamedTuple):
    """Who listens to a subject."""

    subject: bytes
    listener: Listener


class SimHub:
    """Implements the gateway's ``Link`` and ``Subjects``; a gateway that ended is neither heard nor told anything."""

    payload_max = 1 << 20
    writable = True

    def __init__(self, loop: VirtualLoop, dice: random.Random, trace: Callable[[str], None]) -> None:
        self.interest = InterestTable()
        self._loop = loop
        self._dice = dice
        self._trace = trace
        self._parser = WireParser(LEAF)
        self._listeners: dict[bytes, Listener] = {}
        self._wanted: list[bytes] = [b"_INBOX.>"]
        self._receive: Callable[[list[WireMessage]], None] | None = None
        self._waiting: list[WireMessage] = []
        self._inboxes = 0
        self._muted = False
        self.followed: tuple[set[str], set[str]] = (set(), set())

    @property
    def leaf(self) -> "SimHub":
        """The one link."""
        return self

    @property
    def subjects(self) -> "SimHub":
        """What the gateway takes in is noted here as well."""
        return self

    # --- the gateway's side ---

    def attach(self, receive: Callable[[list[WireMessage]], None]) -> None:
        """A gateway is there, and has been told who listens (:meth:`greet`)."""
        self._receive, self._muted = receive, False

    def greet(self) -> InterestTable:
        """A new connection, and who listens."""
        self.interest, self._parser = InterestTable(), WireParser(LEAF)
        for subject in self._wanted:
            self.interest.apply(Interest(subject, b"", 1))
        return self.interest

    def detach(self) -> None:
        """The gateway is gone, and what was on its way to it."""
        self._receive = None
        self._waiting.clear()

    def mute(self) -> None:
        """The gateway takes nothing in any more."""
        self._waiting.clear()
        self._muted = True

    def send_runs(self, *runs: bytes) -> bool:
        """Frames to clients."""
        return self.send(b"".join(runs))

    def send(self, frames: bytes) -> bool:
        """Likewise; they arrive at once, in order, as long as the process that sends them runs."""
        if self._receive is None:
            return False
        for event in self._parser.feed(frames):
            for message in event if isinstance(event, list) else ():
                listener = self._listeners.get(message.subject)
                self._trace(f"< {message.subject!r} {message.header!r} {message.payload!r}")
                if listener is not None:
                    listener(message)
        return True

    async def drain(self, timeout: float) -> None:
        """It is always writable."""

    def follow(self, subjects: set[str], *, streams: set[str]) -> None:
        """What the gateway takes in."""
        self.followed = set(subjects), set(streams)

    def listen_to(self, subject: str) -> None:
        """All that clients send arrives."""

    def stop_listening(self, subject: str) -> None:
        """Likewise."""

    # --- the clients' side ---

    def listen(self, subject: bytes, listener: Listener) -> None:
        """Take messages to a literal subject."""
        self._listeners[subject] = listener
        if not subject.startswith(b"_INBOX."):
            self._wanted.append(subject)
            self.interest.apply(Interest(subject, b"", 1))

    def unlisten(self, subject: bytes) -> None:
        """Take them no more."""
        self._listeners.pop(subject, None)

    def inbox(self) -> bytes:
        """A subject that nobody else uses."""
        self._inboxes += 1
        return b"_INBOX.%d" % self._inboxes

    def publish(self, subject: bytes, payload: bytes = b"", *, reply: bytes = b"", header: bytes = b"") -> None:
        """On its way to the gateway, behind all that went before; lost when there is none."""
        if self._receive is None or self._muted:
            return
        self._trace(f"> {subject!r} {reply!r} {header!r} {payload!r}")
        self._waiting.append(WireMessage(subject, reply, header, payload))
        if len(self._waiting) == 1:
            self._loop.call_later(self._dice.choice(_LATENCIES), self._arrive)

    def _arrive(self) -> None:
        if self._receive is None or not self._waiting:
            return
        number = self._dice.randrange(1, len(self._waiting) + 1)
        run, self._waiting = self._waiting[:number], self._waiting[number:]
        if self._waiting:
            self._loop.call_later(self._dice.choice(_LATENCIES), self._arrive)
        self._receive(run)

    async def ask(
        self, subject: bytes, payload: bytes = b"", *, header: bytes = b"", seconds: float = 1.0
    ) -> WireMessage | None:
        """A request and its answer, None where none comes in time."""
        inbox, answer = self.inbox(), self._loop.create_future()
        self.listen(inbox, lambda message: None if answer.done() else answer.set_result(message))
        self.publish(subject, payload, reply=inbox, header=header)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            return None
        finally:
            self.unlisten(inbox)

    async def batch(self, stream: str, payload: bytes, *, seconds: float) -> tuple[bytes, list[Held]]:
        """The status that ends a batched Direct Get, empty where none comes in time, and the messages before it."""
        inbox, rows, status = self.inbox(), list[Held](), self._loop.create_future()

        def take(message: WireMessage) -> None:
            if message.header.startswith(b"NATS/1.0 "):
                status.set_result(message.header[len(b"NATS/1.0 ") :].partition(b"\r")[0])
                self.unlisten(inbox)
                return
            fields = dict(line.split(": ", 1) for line in message.header.decode().split("\r\n")[1:] if line)
            rows.append(Held(int(fields["Nats-Sequence"]), fields["Nats-Subject"], message.payload))

        self.listen(inbox, take)
        self.publish(f"$JS.API.DIRECT.GET.{stream}".encode(), payload, reply=inbox)
        try:
            async with asyncio.timeout(seconds):
                return await status, rows
        except TimeoutError:
            return b"", rows
        finally:
            self.unlisten(inbox)
