"""The streams of a shard by name, and the way from a subject to its stream."""

from collections.abc import Sequence

from conf.limits import SUBJECT_STEPS_MAX
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.config.subject_overlaps import comparing
from delta_store.streams.copy_links import CopyLink, links_by_origin
from delta_store.streams.routes import Route, RouteTable
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Position
from delta_store.values.subject_relations import SubjectTrie
from delta_store.values.watermark import Watermark


class StreamDirectory:
    """Which streams there are and how far the rows of ended ones went; subjects of streams never overlap."""

    def __init__(self) -> None:
        self.streams: dict[str, StreamState] = {}
        self.ended: dict[str, Position] = {}
        """The last row of each deleted stream: what comes again in a replay is passed over."""
        self._newest_id = 0
        self.changes = 0
        """Grows whenever a stream comes, goes or gets another configuration."""
        self._routes = RouteTable()
        self._copying: dict[str, StreamState] = {}
        self._links: dict[str, list[CopyLink]] = {}

    def route(self, subject: bytes) -> Route | None:
        """Where a message of this subject goes, None when no stream takes it. Valid until a stream changes."""
        return self._routes.find(subject)

    def routes(self, subjects: Sequence[bytes]) -> list[Route | None]:
        """:meth:`route` of many subjects."""
        return self._routes.find_all(subjects)

    def stream_of(self, subject: str) -> StreamState | None:
        """The stream that takes a subject."""
        return self._routes.stream_of(subject)

    def stream(self, name: str) -> StreamState:
        """The stream of this name; raises 10059 when there is none."""
        state = self.streams.get(name)
        if state is None:
            raise api_errors.STREAM_NOT_FOUND.error
        return state

    def tidy(self, state: StreamState) -> None:
        """Free what subjects without messages hold, now and then; voids routes. Call it between runs of messages."""
        if state.index.renumber_subjects():
            self._routes.clear()

    def positions(self) -> dict[str, Watermark]:
        """Where each stream stands: what a commit's metadata says."""
        return {
            name: Watermark(*state.position, first_seq=state.index.first_seq) for name, state in self.streams.items()
        }

    def copies_of(self, name: str) -> Sequence[CopyLink]:
        """The mirrors and sources that name this stream; also those that mean one of another domain."""
        return self._links.get(name, ())

    def refuse_overlap(self, config: StreamConfig) -> None:
        """Raise 10065 when another stream takes some of these subjects."""
        own = self.streams.get(config.name)
        wanted = SubjectTrie(((subject, own) for subject in config.subjects), steps_max=SUBJECT_STEPS_MAX)
        with comparing():
            if next(wanted.pairs(self._routes.subjects), None) is not None:
                raise api_errors.SUBJECT_OVERLAP.error

    def streams_taking(self, subject: str) -> set[str]:
        """Names of the streams that take some of what a subject, wildcards possible, stands for."""
        return {taker.value.name for taker in self._routes.subjects.overlapping(subject)}

    def open(self, config: StreamConfig, *, stream_id: int, created_ns: int) -> StreamState:
        """Add a new stream, in the place of one of the same name."""
        self._newest_id = max(self._newest_id, stream_id)
        state = self.streams[config.name] = StreamState(config, stream_id=stream_id, created_ns=created_ns)
        self._look(config.name)
        return state

    def reconfigure(self, state: StreamState, config: StreamConfig, *, ts_ns: int) -> None:
        """Give a stream another configuration at the time of its row."""
        state.reconfigure(config, ts_ns=ts_ns)
        self._look(state.name)

    def close(self, name: str, position: Position) -> None:
        """Take a stream away; ``position`` is that of the row that ended it."""
        self.streams.pop(name, None)
        self.note_ended(name, position)
        self._look(name)

    def note_ended(self, name: str, position: Position) -> None:
        """Remember how far the rows of a stream went that may have ended."""
        self.ended[name] = position
        self._newest_id = max(self._newest_id, position.stream_id)

    def new_id(self, now_ns: int) -> int:
        """An id that no stream has had: files and caches tell rows apart by it, also of streams made at one time."""
        return max(now_ns, self._newest_id + 1)

    def _look(self, name: str) -> None:
        """Find again what follows from all configurations: this stream has come, changed or gone."""
        known, state = self._copying.pop(name, None), self.streams.get(name)
        self._routes.take(name, state)
        self.changes += 1
        copies = state is not None and (state.config.mirror is not None or bool(state.config.sources))
        if state is not None and copies:
            self._copying[name] = state
        if copies or known is not None:
            self._links = links_by_origin(self._copying.values())
