"""Routes from publish subjects to streams, cached.

Streams never overlap, so a subject has at most one. A full cache is emptied, which costs a lookup for each subject that
is still in use.
"""

from collections.abc import Sequence
from typing import NamedTuple

from conf.limits import ROUTES_CACHED_MAX, SUBJECT_STEPS_MAX
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.config.subject_overlaps import comparing
from delta_store.streams.stream_state import StreamState
from delta_store.values.subject_relations import SubjectTrie
from delta_store.values.subjects import valid


class Route(NamedTuple):
    """The stream of one publish subject."""

    state: StreamState
    subject: str
    """The subject after the stream's transform, under which the message is stored."""
    sid: int
    """The subject's id in the stream's index; -1 for a subject that is not UTF-8 and can't be stored."""


class RouteTable:
    """The subjects of all streams; routes are valid until :meth:`clear` or :meth:`take`."""

    __slots__ = ("_routes", "_subjects", "_taken")

    def __init__(self) -> None:
        self._routes: dict[bytes, Route | None] = {}
        self._taken: dict[str, tuple[StreamState, tuple[str, ...]]] = {}
        self._subjects: SubjectTrie[StreamState] = SubjectTrie()
        """Every stream's subjects."""

    def take(self, name: str, state: StreamState | None) -> None:
        """Replace a stream's subjects by those of its new state; None for a stream that was deleted."""
        self._routes.clear()
        before, had = self._taken.pop(name, (None, ()))
        if state is not None:
            self._taken[name] = state, state.config.subjects
        if state is before and (state is None or state.config.subjects == had):
            return
        for subject in had:
            assert before is not None
            self._subjects.discard(subject, before)
        for subject in state.config.subjects if state is not None else ():
            assert state is not None
            self._subjects.add(subject, state)

    def clear(self) -> None:
        """Empty the cache: subject ids are void."""
        self._routes.clear()

    def find(self, subject: bytes) -> Route | None:
        """Return the route of a subject; None when no stream has it."""
        try:
            return self._routes[subject]
        except KeyError:
            return self._look_up(subject)

    def find_all(self, subjects: Sequence[bytes]) -> list[Route | None]:
        """Return the routes of many subjects."""
        found = self._routes
        try:
            return [found[subject] for subject in subjects]
        except KeyError:
            return [self.find(subject) for subject in subjects]

    def stream_of(self, subject: str) -> StreamState | None:
        """Return the stream of a subject, or None."""
        found = next(self._subjects.matching(subject), None)
        return found.value if found is not None else None

    def streams_taking(self, subject: str) -> set[str]:
        """Return the names of the streams whose subjects overlap this one (wildcards possible)."""
        return {taker.value.name for taker in self._subjects.overlapping(subject)}

    def refuse_overlap(self, config: StreamConfig) -> None:
        """Raise 10065 when subjects overlap with another stream's."""
        own, _ = self._taken.get(config.name, (None, ()))
        wanted = SubjectTrie(((subject, own) for subject in config.subjects), steps_max=SUBJECT_STEPS_MAX)
        with comparing():
            if next(wanted.pairs(self._subjects), None) is not None:
                raise api_errors.SUBJECT_OVERLAP.error

    def _look_up(self, subject: bytes) -> Route | None:
        text = subject.decode(errors="surrogateescape")
        state = self.stream_of(text) if _publishable(text) else None
        if state is not None and state.transform is not None:
            text = state.transform.match(text) or text
            if state.transform.is_random:
                return _route(state, text)
        route = None
        if state is not None:
            route = _route(state, text)
        if len(self._routes) >= ROUTES_CACHED_MAX:
            self._routes.clear()
        self._routes[subject] = route
        return route


def _route(state: StreamState, text: str) -> Route:
    sound = text.isascii() or _is_unicode(text)
    return Route(state, text, state.index.table.intern(text)) if sound else Route(state, "", -1)


def _publishable(subject: str) -> bool:
    """Whether a message may be published to it: a wildcard is plain text then, as in nats-server."""
    return valid(subject.replace(">", "x")) if ">" in subject else valid(subject)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
