"""How long what has left the tables stays readable: of each stream, and of the log that all streams share. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Horizons:
    """The horizons as the owner of ``messages`` knows them, in seconds."""

    default: float
    """Of streams without one of their own."""
    _own: dict[str, float] = field(default_factory=dict)

    def learn(self, stream: str, history_ns: int | None) -> None:
        """Note a stream's own horizon; None for none."""
        if history_ns is None:
            self._own.pop(stream, None)
        else:
            self._own[stream] = history_ns / 1e9

    def know(self, histories: Iterable[tuple[str, int | None]]) -> None:
        """Note the horizons of all streams that there are; others are deleted."""
        self._own = {}
        for stream, history_ns in histories:
            self.learn(stream, history_ns)

    def of(self, stream: str) -> float:
        """Return a stream's horizon."""
        return self._own.get(stream, self.default)

    @property
    def own(self) -> dict[str, float]:
        """The streams that have one of their own."""
        return dict(self._own)

    @property
    def longest(self) -> float:
        """The horizon of the log, and of whatever is kept for all streams together."""
        return max([self.default, *self._own.values()])
