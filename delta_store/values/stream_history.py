"""How far back a stream can be read, and what that costs. Pure."""

from typing import Any, NamedTuple

from delta_store.values.oldest_point import OldestPoint


class StreamHistory(NamedTuple):
    """The history of one stream."""

    own_ns: int | None
    """For how long its metadata asks for; None where it says nothing."""
    oldest: OldestPoint
    held_files: int
    held_bytes: int
    """Settled files of it that are there for past versions alone."""

    def shown(self, horizon_seconds: float) -> dict[str, Any]:
        """Return the fields of replies; ``horizon_seconds`` is the horizon of streams that say nothing."""
        return {
            "history": round(horizon_seconds * 1e9) if self.own_ns is None else self.own_ns,
            "own": self.own_ns is not None,
            "oldest_seq": self.oldest.seq,
            "oldest_time": self.oldest.time,
            "held_files": self.held_files,
            "held_bytes": self.held_bytes,
        }
