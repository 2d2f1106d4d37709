"""The streams of a shard by name, and the way from a subject to its stream."""

from collections.abc import Sequence

from delta_store import api_errors
from delta_store.copy_links import CopyLink, links_by_origin
from delta_store.records import Position
from delta_store.routes import Route, RouteTable
from delta_store.stream_config import StreamConfig
from delta_store.stream_state import StreamState
from delta_store.subjects import overlaps
from delta_store.watermark import Watermark


class StreamDirectory:
    """Which streams there are and how far the rows of ended ones went; subjects of streams never overlap."""

    def __init__(self) -> None:
        self.streams: dict[str, StreamState] = {}
        self.ended: dict[str, Position] = {}
        """The last row of each deleted stream: what comes again in a replay is passed over."""
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
        for other in self.streams.values():
            if other.name != config.name and any(
                overlaps(mine, its) for mine in config.subjects for its in other.config.subjects
            ):
                raise api_errors.SUBJECT_OVERLAP.error

    def open(self, config: StreamConfig, *, stream_id: int, created_ns: int) -> StreamState:
        """Add a new stream, in the place of one of the same name."""
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
        self.ended[name] = position
        self._look(name)

    def _look(self, name: str) -> None:
        """Find again what follows from all configurations: this stream has come, changed or gone."""
        self._routes.rebuild(self.streams.values())
        known, state = self._copying.pop(name, None), self.streams.get(name)
        copies = state is not None and (state.config.mirror is not None or bool(state.config.sources))
        if state is not None and copies:
            self._copying[name] = state
        if copies or known is not None:
            self._links = links_by_origin(self._copying.values())
