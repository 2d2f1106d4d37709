"""Streams whose restores broke off, and whose senders may go on: nobody sees them, and others may have their names."""

from typing import Final

from conf.limits import RESTORE_PARKED_SECONDS
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, Position, RowColumns

_NS: Final = 1_000_000_000


class ParkedStreams:
    """These streams by name."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[StreamState, int]] = {}

    def get(self, name: str) -> StreamState | None:
        """Return the stream of this name, None without one."""
        return self._streams[name][0] if name in self._streams else None

    def add(self, state: StreamState, *, now_ns: int) -> None:
        """Keep a stream from now on."""
        self._streams[state.name] = state, now_ns

    def take(self, config: StreamConfig, resume: str) -> StreamState | None:
        """Take a stream up again, by its sender's word and with the same configuration; None without one."""
        state = self.get(config.name)
        if state is None or not resume or (state.resume, state.config) != (resume, config):
            return None
        del self._streams[config.name]
        return state

    def late(self, now_ns: int) -> list[str]:
        """Return the names of streams that nobody has gone on with for too long."""
        return [name for name, (_, since) in self._streams.items() if now_ns - since > RESTORE_PARKED_SECONDS * _NS]

    def give_up(self, name: str, *, now_ns: int, rows: RowColumns) -> Position | None:
        """Record that a stream is deleted; return its last position, None without one."""
        state, _ = self._streams.pop(name, (None, 0))
        if state is None:
            return None
        state.record(Kind.STREAM_DELETE, b"", now_ns=now_ns, rows=rows)
        return state.position
