"""Mirrors and sources of other domains and accounts: their messages come over the leaf link, and are stored.

Each copy has a consumer at its origin (:mod:`ingest.origins`). What it delivers is appended to the gathering group like
a publish, and flow control is answered when that is durable: so an origin is never further ahead than its window.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from conf.clock import Clock
from conf.limits import COPY_RETRY_SECONDS, ORIGIN_LOOK_SECONDS
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import CopyLink, links_of
from delta_store.streams.stream_sources import is_local
from ingest.origins.origin_consumer import OriginConsumer
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.copied_messages import note_caught_up, store_copies
from ingest.publishing.group import Gathering

_Key = tuple[str, int, str]


class CopyingCore(Protocol):
    """The core: the streams, and the group that copies are appended to."""

    new_id: Callable[[], str]

    @property
    def catalog(self) -> Catalog:
        """The streams."""
        ...

    @property
    def gathering(self) -> Gathering:
        """The gathering group."""
        ...

    def stored(self) -> None:
        """Apply messages stored otherwise than by a publish."""
        ...


class OriginLink(Protocol):
    """The link to the hub."""

    def send_runs(self, *runs: bytes) -> bool:
        """Send encoded leaf frames; return False if they were not sent."""
        ...


class OriginSubjects(Protocol):
    """The subscriptions of the link."""

    def listen_to(self, subject: str) -> None:
        """Subscribe."""
        ...

    def stop_listening(self, subject: str) -> None:
        """Unsubscribe."""
        ...


class OriginCopies:
    """The copies of all streams that are elsewhere; used on the gateway's event loop only."""

    def __init__(
        self,
        core: CopyingCore,
        link: OriginLink,
        subjects: OriginSubjects,
        *,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when the gathering group has new rows or replies."""
        self._core = core
        self._link = link
        self._subjects = subjects
        self._clock = clock
        self._changed = changed
        self._copies: dict[_Key, OriginConsumer] = {}
        self._by_subject: dict[bytes, OriginConsumer] = {}
        self._listening: dict[OriginConsumer, frozenset[bytes]] = {}
        """The subjects of each copy that are subscribed to."""
        self._synced = -1
        self._stopped = False

    def sync(self) -> None:
        """Follow the catalog, whose streams may have been created, updated or deleted."""
        catalog, now = self._core.catalog, self._clock.monotonic()
        if self._synced == catalog.changes or self._stopped:
            return
        self._synced = catalog.changes
        known, self._copies = self._copies, {}
        for state in catalog.streams.values():
            if state.config.mirror is None and not state.config.sources:
                continue
            for link in links_of(state):
                if is_local(link.source, catalog.domain):
                    continue
                key = (state.name, state.stream_id, link.label)
                copy = known.pop(key, None)
                if copy is None or copy.link.target is not state:
                    copy = OriginConsumer(link, domain=catalog.domain, new_id=self._core.new_id, now=now)
                copy.link = link
                self._copies[key] = copy
        for copy in known.values():
            if frame := copy.farewell():
                self._link.send_runs(frame)
            copy.link.target.heard.pop(copy.link.label, None)
            copy.give_up(now)
            self._follow(copy)

    def attached(self, attached: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Apply that the link to the hub is attached, or not."""
        if attached:
            for copy in self._copies.values():
                copy.begin_anew(self._clock.monotonic())
                self._follow(copy)

    def take(self, run: Sequence[WireMessage]) -> Sequence[WireMessage]:
        """Take the messages of origins; return the others."""
        mine = self._by_subject
        if not mine or not any(message.subject in mine for message in run):
            return run
        heard: dict[OriginConsumer, list[WireMessage]] = {}
        for message in run:
            copy = mine.get(message.subject)
            if copy is not None:
                heard.setdefault(copy, []).append(message)
        others = [message for message in run if message.subject not in mine]
        for copy, messages in heard.items():
            self._hear(copy, messages)
        return others

    def stop(self) -> None:
        """Take no more messages."""
        self._stopped = True

    async def run(self) -> None:
        """Ask for consumers, and for new ones where an origin is silent, until cancelled."""
        while True:
            await asyncio.sleep(ORIGIN_LOOK_SECONDS)
            if self._stopped or self._core.catalog.held:
                continue
            for copy in list(self._copies.values()):
                frames = copy.look(self._clock.monotonic())
                self._follow(copy)
                if frames:
                    self._link.send_runs(*frames)

    def _hear(self, copy: OriginConsumer, messages: list[WireMessage]) -> None:
        """Store what an origin delivers, and reply when it is durable; what can't be stored is asked for again."""
        now = self._clock.monotonic()
        if self._stopped or self._core.catalog.held:
            copy.give_up(now, after=COPY_RETRY_SECONDS)
            self._follow(copy)
            return
        taken = copy.take(messages, now)
        copy.heard.last_ns = self._clock.now_ns()
        self._follow(copy)
        if taken.frames:
            self._link.send_runs(*taken.frames)
        if taken.begins:
            self._skip_to(copy.link, taken.begins)
        if len(taken.run):
            group, now_ns = self._core.gathering.group, self._clock.now_ns()
            done = store_copies(
                self._core.catalog, copy.link, taken.run, identity=copy.identity, now_ns=now_ns, group=group
            )
            if done:
                copy.heard.recreated = False
                if taken.caught_up:
                    note_caught_up(copy.link.target, now_ns=now_ns, group=group)
                self._core.stored()
            if done < len(taken.run):
                copy.give_up(now, after=COPY_RETRY_SECONDS)
                self._follow(copy)
                self._changed()
                return
        self._core.gathering.group.replies.extend(taken.replies)
        if len(taken.run) or taken.replies or taken.begins:
            self._changed()

    def _skip_to(self, link: CopyLink, seq: int) -> None:
        """Let a mirror go on with sequence ``seq``: its origin has nothing before that it would copy."""
        state = link.target
        state.index.restore_bounds(first_seq=seq, last_seq=seq - 1, last_ts=0)
        rows = self._core.gathering.group.rows
        state.record_removal([], "skip", now_ns=self._clock.now_ns(), rows=rows)

    def _follow(self, copy: OriginConsumer) -> None:
        """Subscribe to what the copy listens to now, and to nothing else of it."""
        known = self._listening.pop(copy, frozenset())
        if copy.subjects:
            self._listening[copy] = copy.subjects
        for subject in known - copy.subjects:
            del self._by_subject[subject]
            self._subjects.stop_listening(subject.decode())
        for subject in copy.subjects - known:
            self._by_subject[subject] = copy
            self._subjects.listen_to(subject.decode())
