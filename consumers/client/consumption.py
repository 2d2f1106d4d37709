"""Continuous consuming: the IO around :mod:`consumers.client.pull_state`, which decides everything.

nats-py's task receives messages into a buffer, which pulls keep bounded. One task of this object's group sends the
pulls and watches clock and connection; a second one calls the callback, if there is one. Both end with the ``async
with`` block.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from nats.aio.msg import Msg

from consumers.client.api_call import Api, nats_errors
from consumers.client.connection import LOOK_SECONDS, ConnectionState, ConnectionWatch
from consumers.client.delivery import ACK_PREFIX, message_size
from consumers.client.errors import ConnectionLost, JetStreamError, PullError, UsageError
from consumers.client.inbox import Inbox, Signal
from consumers.client.message import Message
from consumers.client.ordered_state import Verdict
from consumers.client.pull import PullPlan
from consumers.client.pull_source import PullSource
from consumers.client.pull_state import Event, Phase, PullState
from consumers.client.pull_status import read_status

Callback = Callable[[Message], Awaitable[None]]
OnWarning = Callable[[JetStreamError], None]
WARNINGS_KEPT = 100
_log = logging.getLogger(__name__)


def log_warning(warning: JetStreamError) -> None:
    """Log a warning: the default for ``on_warning``."""
    _log.warning("%s: %s", warning.kind, warning)


class Consumption:
    """Continuous consuming: ``async with`` it, then iterate; or pass a callback, and :meth:`wait`.

    Leaving the block stops it. Terminal errors are raised by iteration or, with a callback, out of the block, as are
    the callback's own; from all others it recovers, and passes them to ``on_warning``.
    """

    def __init__(
        self,
        api: Api,
        source: PullSource,
        plan: PullPlan,
        *,
        callback: Callback | None = None,
        on_warning: OnWarning = log_warning,
    ) -> None:
        self._client = api.client
        self._source = source
        self._state = PullState(plan)
        self._callback = callback
        self._on_warning = on_warning
        self._buffer: deque[tuple[Message, int]] = deque()
        self._warnings: deque[JetStreamError] = deque(maxlen=WARNINGS_KEPT)
        self._error: JetStreamError | None = None
        self._drained = False
        self._received_at_recovery = -1
        self._arrived, self._wake = Signal(), Signal()
        self._handled = asyncio.Event()
        self._inbox = Inbox(api.client, self._receive)
        self._watch = ConnectionWatch(api.client)
        self._group: asyncio.TaskGroup | None = None

    @property
    def buffered(self) -> int:
        """Number of messages received and not handed over yet."""
        return len(self._buffer)

    @property
    def pending(self) -> int:
        """Messages requested and not handed over yet; bytes if ``max_bytes`` limits."""
        return self._state.pending

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise UsageError("consuming is started once")
        await self._source.prepare()
        self._group = asyncio.TaskGroup()
        try:
            await self._inbox.open()
        except BaseException:
            await self._inbox.close()
            await self._source.close()
            raise
        await self._group.__aenter__()
        self._group.create_task(self._drive())
        if self._callback is not None:
            self._group.create_task(self._handle(self._callback))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._halt()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            others = [inner for inner in group.exceptions if inner is not error]
            if len(others) == 1:
                raise others[0] from None
            if others:
                raise
        finally:
            await self._inbox.close()
            await self._source.close()

    def __aiter__(self) -> "Consumption":
        return self

    async def __anext__(self) -> Message:
        if self._group is None:
            raise UsageError("consuming starts with `async with`")
        while True:
            if self._state.is_pull_due and await self._send_pulls():
                await asyncio.sleep(0)  # a program that never waits would keep the pull from being written
            if self._buffer:
                return self._hand_over()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._state.phase is Phase.ENDED or self._drained:
                raise StopAsyncIteration
            await self._arrived.wait(LOOK_SECONDS)

    async def stop(self) -> None:
        """End now; the server delivers the dropped messages of the buffer again after ``ack_wait``."""
        self._halt()
        await self._inbox.close()

    async def drain(self, *, timeout: float = 10.0) -> None:
        """Send no more pulls; iteration, or the callback, ends after the messages already received."""
        if self._drained:
            return
        self._state.on(Event.DRAIN)
        try:
            await self._inbox.drain(timeout)
        finally:
            self._drained = True
            self._notify()

    async def wait(self) -> None:
        """Wait until the callback has handled its last message after :meth:`drain` or :meth:`stop`."""
        if self._callback is None:
            raise UsageError("there is no callback to wait for")
        await self._handled.wait()

    async def _handle(self, callback: Callback) -> None:
        try:
            async for message in self:
                await callback(message)
        finally:
            self._handled.set()

    def _hand_over(self) -> Message:
        message, size = self._buffer.popleft()
        self._state.handed_over(size)
        self._source.handed(message)
        if self._state.is_pull_due:
            self._wake.set()  # the program may take long over this message
        return message

    def _receive(self, number: int, raw: Msg) -> None:
        now = asyncio.get_running_loop().time()
        if raw.reply.startswith(ACK_PREFIX):
            self._receive_message(raw, now)
            self._arrived.set()
            return
        status = read_status(raw.headers)
        problem = self._state.status(number, status, now)
        if problem is not None:
            self._told(problem)
        elif status.is_heartbeat and self._state.phase is Phase.OPEN:
            gap = self._source.heartbeat(status.last_consumer)
            if gap is not None:
                self._break(gap)
        self._wake.set()

    def _receive_message(self, raw: Msg, now: float) -> None:
        message = Message(self._client, raw)
        verdict = self._source.accept(message)
        if verdict is Verdict.TAKE and self._state.phase is not Phase.ENDED:
            size = message_size(raw.subject, raw.reply, raw.headers, raw.data)
            self._state.received(size, now)
            self._buffer.append((message, size))
        elif verdict is Verdict.GAP:
            self._break(None)

    def _told(self, problem: PullError) -> None:
        if self._source.mends(problem):
            self._break(problem)
        elif problem.terminal:
            self._fail(problem)
        else:
            self._warn(problem)

    def _break(self, reason: JetStreamError | None) -> None:
        found = self._source.abandon() or reason
        if found is not None:
            self._warn(found)
        self._state.on(Event.BROKEN)
        self._wake.set()

    def _warn(self, warning: JetStreamError) -> None:
        self._warnings.append(warning)
        self._wake.set()

    def _fail(self, error: JetStreamError) -> None:
        if self._state.phase is not Phase.ENDED:
            self._error = error
            self._state.on(Event.STOP)
            self._notify()

    def _halt(self) -> None:
        self._state.on(Event.STOP)
        while self._buffer:
            self._state.handed_over(self._buffer.popleft()[1])
        self._notify()

    def _notify(self) -> None:
        self._arrived.set()
        self._wake.set()

    async def _drive(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._state.phase is not Phase.ENDED:
            self._look()
            late = self._state.tick(clock())
            if late is not None:
                self._told(late)
            if self._state.phase is Phase.RECOVERING:
                await self._recover()
            await self._send_pulls()
            while self._warnings:
                self._on_warning(self._warnings.popleft())
            due = self._state.next_look(clock())
            await self._wake.wait(LOOK_SECONDS if due is None else min(due, LOOK_SECONDS))
        while self._warnings:
            self._on_warning(self._warnings.popleft())

    def _look(self) -> None:
        match self._watch.look():
            case ConnectionState.CLOSED if not self._drained:
                self._fail(ConnectionLost("the connection is closed"))
            case ConnectionState.DRAINING:
                self._state.on(Event.DRAIN)
            case ConnectionState.DOWN if self._state.phase is Phase.OPEN:
                self._state.on(Event.DISCONNECTED)
            case ConnectionState.RENEWED:
                self._state.on(Event.RECONNECTED)
            case ConnectionState.UP if self._state.phase is Phase.OFFLINE:
                self._state.on(Event.RECONNECTED)
            case _:
                pass

    async def _recover(self) -> None:
        clock = asyncio.get_running_loop().time
        if self._received_at_recovery == self._state.received_total:
            await self._wake.wait(self._state.pause(clock()))
            if self._state.phase is not Phase.RECOVERING:
                return
        self._received_at_recovery = self._state.received_total
        try:
            await self._source.recover()
        except JetStreamError as error:
            if error.retryable:
                self._warn(error)
            else:
                self._fail(error)
        else:
            self._state.on(Event.RECOVERED)

    async def _send_pulls(self) -> bool:
        clock = asyncio.get_running_loop().time
        sent = False
        while self._client.is_connected and (pull := self._state.pull(clock())) is not None:
            try:
                with nats_errors("pull"):
                    await self._client.publish(
                        self._source.next_subject, pull.body, reply=self._inbox.reply(pull.number)
                    )
            except JetStreamError as error:
                self._state.not_sent(pull.number, clock())
                self._warn(error)
            sent = True
        return sent
