"""The sending of backups: chunks to a subject, as many at a time as their receiver acks (ADR-63)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from api.gateway.gateway_log import report
from api.gateway.snapshot_reads import SnapshotReads, StreamGone
from api.jetstream import transfer_advisories
from api.jetstream.backup_api import StreamSnapshot
from conf.clock import Clock
from conf.limits import SNAPSHOT_INTEREST_SECONDS, SNAPSHOT_WILDCARD_SECONDS, TRANSFER_SILENCE_SECONDS, TRANSFERS_MAX
from consumers.machine.effects import Advisory
from delta_store.values.read_errors import ReadError
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

_LOOK_SECONDS: Final = 0.05
_DRAIN_SECONDS: Final = 1.0
_DONE: Final = b"NATS/1.0 204\r\n\r\n"


class TransferInterest(Protocol):
    """The interest at the hub."""

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message to this literal subject has a receiver at the hub."""
        ...

    def listens(self, subject: bytes) -> bool:
        """Whether exactly this subscription may exist."""
        ...


class TransferLink(Protocol):
    """The link on which chunks leave."""

    @property
    def interest(self) -> TransferInterest:
        """The interest at the hub."""
        ...

    @property
    def writable(self) -> bool:
        """Whether more may be sent now."""
        ...

    def send_runs(self, *runs: bytes) -> bool:
        """Send encoded leaf frames, each run to one subject; return False if they were not sent."""
        ...

    async def drain(self, timeout: float) -> None:
        """Wait until :attr:`writable` or detached. Raises ``TimeoutError``."""
        ...


class TransferSubjects(Protocol):
    """The subscriptions of transfers."""

    def listen_to(self, subject: str) -> None:
        """Subscribe on the leaf link."""
        ...

    def stop_listening(self, subject: str) -> None:
        """Unsubscribe."""
        ...


class TransferSurroundings(NamedTuple):
    """What transfers stand among."""

    link: TransferLink
    subjects: TransferSubjects
    clock: Clock
    tell: Callable[[Advisory], None]
    """Sends an advisory."""
    new_id: Callable[[], str]


class _Ended(Exception):
    """A backup that ends early, with the status of its last message."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True, eq=False)
class _Window:
    """The chunks of one backup that are not acked yet."""

    size: int
    open: int = 0
    acked: asyncio.Event = field(default_factory=asyncio.Event)


class SnapshotSender:
    """The backups under way, by the prefix of the subjects of their acks."""

    def __init__(self, reads: SnapshotReads, around: TransferSurroundings) -> None:
        self._reads = reads
        self._around = around
        self._windows: dict[bytes, _Window] = {}
        self._at_a_time = asyncio.Semaphore(TRANSFERS_MAX)

    def take(self, message: WireMessage) -> None:
        """Take the ack of a chunk; any other message is dropped."""
        window = self._windows.get(message.subject.rsplit(b".", 2)[0])
        if window is not None:
            window.open = max(0, window.open - 1)
            window.acked.set()

    async def send(self, work: StreamSnapshot) -> None:
        """Send a backup, and the advisories of its begin and end."""
        clock, tell = self._around.clock, self._around.tell
        tell(transfer_advisories.snapshot_begun(work.stream, work.state))
        start_ns, error = clock.now_ns(), ""
        async with self._at_a_time:
            prefix = f"$JS.SNAPSHOT.ACK.{work.stream}.{self._around.new_id()}"
            window = self._windows[prefix.encode()] = _Window(work.window_chunks)
            self._around.subjects.listen_to(f"{prefix}.>")
            try:
                last = await self._send(work, prefix, window)
            except _Ended as ended:
                error, last = str(ended), f"NATS/1.0 {ended.status}\r\n\r\n".encode()
            except (ReadError, StreamGone, TimeoutError) as failed:
                error = " ".join(str(failed).split())
                last = f"NATS/1.0 500 {error}\r\n\r\n".encode()
            finally:
                self._around.subjects.stop_listening(f"{prefix}.>")
                del self._windows[prefix.encode()]
            self._around.link.send_runs(encode_message(work.deliver_subject.encode(), b"", header=last))
        if error:
            report("backup failed", f"stream {work.stream}: {error}")
        tell(transfer_advisories.snapshot_ended(work.stream, start_ns=start_ns, end_ns=clock.now_ns(), error=error))

    async def _send(self, work: StreamSnapshot, prefix: str, window: _Window) -> bytes:
        """Send all chunks; return the header of the message behind them."""
        subject, link = work.deliver_subject.encode(), self._around.link
        heard = await self._interest(subject)
        number, sent_at = 0, self._around.clock.monotonic()
        async for chunk in _chunks(self._reads.parts(work), work.chunk_bytes):
            is_full = len(chunk) == work.chunk_bytes
            await self._slot(window, subject, sent_at=sent_at, heard=heard)
            while not link.writable:
                with suppress(TimeoutError):
                    await link.drain(_DRAIN_SECONDS)
                await asyncio.sleep(0)
                self._look(window, subject, sent_at=sent_at, heard=heard)
            number += is_full
            window.open += is_full
            reply = f"{prefix}.{len(chunk)}.{number}".encode() if is_full else b""
            link.send_runs(encode_message(subject, chunk, reply=reply))
            sent_at = self._around.clock.monotonic()
        return _DONE if number else b""

    async def _interest(self, subject: bytes) -> bool:
        """Wait a little for a receiver; return whether there is any.

        Clients subscribe when they have the reply to their request. Until then a wildcard of theirs may match, behind
        which nobody takes a chunk.
        """
        interest, clock = self._around.link.interest, self._around.clock
        began = clock.monotonic()
        while not interest.listens(subject):
            passed = clock.monotonic() - began
            if passed > SNAPSHOT_INTEREST_SECONDS:
                return False
            if passed > SNAPSHOT_WILDCARD_SECONDS and interest.has_interest(subject):
                return True
            await asyncio.sleep(_LOOK_SECONDS / 10)
        return True

    async def _slot(self, window: _Window, subject: bytes, *, sent_at: float, heard: bool) -> None:
        """Wait until another chunk may be sent. Raises :class:`_Ended`."""
        self._look(window, subject, sent_at=self._around.clock.monotonic(), heard=heard)
        while window.open >= window.size:
            window.acked.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await window.acked.wait()
            self._look(window, subject, sent_at=sent_at, heard=heard)

    def _look(self, window: _Window, subject: bytes, *, sent_at: float, heard: bool) -> None:
        """Raise :class:`_Ended` where the receiver is gone or silent."""
        if heard and not self._around.link.interest.has_interest(subject):
            raise _Ended("408 No TransferInterest", "no interest")
        if window.open >= window.size and self._around.clock.monotonic() > sent_at + TRANSFER_SILENCE_SECONDS:
            raise _Ended("408 No Flow Response", "no flow response")


async def _chunks(parts: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Cut a backup into chunks of one size, but for the last."""
    held = bytearray()
    async for part in parts:
        held += part
        start = 0
        while len(held) - start >= size:
            yield bytes(held[start : start + size])
            start += size
        del held[:start]
    if held:
        yield bytes(held)
