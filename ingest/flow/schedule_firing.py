"""The firing of due message schedules: each stores its message in the stream, like a publish.

The message has the schedule's next time, or ends it; both are rows of the same group. Content that is not in memory is
read in a thread.
"""

import re
from contextlib import suppress
from datetime import UTC
from typing import Final

from conf.clock import Clock
from conf.limits import SCHEDULES_READ_MAX, SCHEDULES_TURN_MAX
from delta_store.config.schedule_pattern import zone
from delta_store.dialect.times import format_time
from delta_store.index.matching import last_by_subject
from delta_store.reading.read_plan import ReadPlan
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.store_reader import StoreReader
from delta_store.streams.catalog import Catalog
from delta_store.streams.schedules import own_firing
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import ReadError
from delta_store.values.stream_message import StreamMessage
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.featured_store import FeaturedStore, Single
from ingest.publishing.group import Gathering, Group
from ingest.publishing.publish import decide
from ingest.publishing.publish_headers import fields, with_field

_STRIPPED: Final = re.compile(rb"\r\n(?:Nats-Schedule|Nats-Expected-|Nats-Msg-Id:|Nats-TTL:|Nats-Rollup:)[^\r]*")


class ScheduleFiring:
    """The schedules of all streams; used on the gateway's event loop only."""

    def __init__(self, catalog: Catalog, reader: StoreReader, *, clock: Clock, gathering: Gathering) -> None:
        self._gathering = gathering
        self._catalog = catalog
        self._reader = reader
        self._clock = clock
        self._found: dict[ReadPlan, list[StreamMessage]] = {}
        self._missing: list[ReadPlan] = []

    async def look(self) -> bool:
        """Fire due schedules; return whether the group has new rows."""
        fired = self._fire(self._gathering.group)
        missing, self._missing, self._found = self._missing, [], {}
        for wanted in missing:
            with suppress(ReadError, ReadsBusy, TimeoutError):
                self._found[wanted] = await self._reader.read(wanted)
        return bool(self._found and self._fire(self._gathering.group)) or fired

    def _fire(self, group: Group) -> bool:
        if self._catalog.held:
            return False
        now_ns, rows, again = self._clock.now_ns(), len(group.rows), list[WireMessage]()
        for state in self._catalog.streams.values():
            if state.schedules is None or not 0 < state.schedules.next_ns() <= now_ns or state.config.sealed:
                continue
            self._catalog.expire_stream(state, now_ns=now_ns, rows=group.rows)
            store = FeaturedStore(self._catalog, state, now_ns, group)
            for seq in state.schedules.due(state.index, now_ns=now_ns, limit=SCHEDULES_TURN_MAX):
                if state.index.live.sid_of(seq) >= 0 and not self._fire_one(store, state, seq, now_ns):
                    state.schedules.put_back(seq)
            self._catalog.tidy(state)
            again += store.again
        decide(self._catalog, again, now_ns, group)
        return len(group.rows) > rows

    def _fire_one(self, store: FeaturedStore, state: StreamState, seq: int, now_ns: int) -> bool:
        """Store the message of one schedule; return False if its content must be read first."""
        assert state.schedules is not None, "the stream has schedules"
        scheduled = state.schedules.get(seq)
        of = last_by_subject(state.index, scheduled.source) if scheduled.source else 0
        own, source = self._content(state, seq), self._content(state, of) if of else None
        if own is None or (of and source is None):
            return False
        message = _produced(own, source or own, due_ns=scheduled.due_ns, now_ns=now_ns)
        if message is None:
            return True
        if state.transform is not None:
            message = message._replace(subject=state.transform.match(message.subject) or message.subject)
        if not state.config.allow_rollup_hdrs or state.config.deny_purge:
            message = message._replace(fields={n: v for n, v in message.fields.items() if n != b"Nats-Rollup"})
        largest = state.config.max_msg_size
        if not 0 < largest < len(message.header or b"") + len(message.payload):
            store.store(message._replace(sid=state.index.table.intern(message.subject)))
        return True

    def _content(self, state: StreamState, seq: int) -> StreamMessage | None:
        wanted = ReadPlan(state.name, state.stream_id, (seq,))
        found = self._reader.payloads.run_now(*wanted) or self._found.get(wanted)
        if not found and len(self._missing) < SCHEDULES_READ_MAX:
            self._missing.append(wanted)
        return found[0] if found else None


def _produced(own: StreamMessage, content: StreamMessage, *, due_ns: int, now_ns: int) -> Single | None:
    """Return a schedule's message, with its own or another message's content; None if the schedule is over."""
    asked = fields(own.headers or b"")
    texts = {name: value.decode(errors="replace") for name, value in asked.items()}
    target = texts.get(b"Nats-Schedule-Target", "")
    after = own_firing(texts, ts_ns=due_ns, now_ns=now_ns)
    if after is None or not target:
        return None
    named = texts.get(b"Nats-Schedule-Time-Zone")
    following = format_time(after.due_ns, zone(named) if named else UTC) if after.repeats else "purge"
    header = _STRIPPED.sub(b"", content.headers or b"")
    header = with_field(header, b"Nats-Scheduler", own.subject.encode())
    header = with_field(header, b"Nats-Schedule-Next", following.encode())
    for name, source in ((b"Nats-TTL", b"Nats-Schedule-TTL"), (b"Nats-Rollup", b"Nats-Schedule-Rollup")):
        if source in asked:
            header = with_field(header, name, asked[source])
    return Single(target, -1, b"", header, content.data, fields(header))
