"""A consumer's view of its stream."""

from typing import Protocol

from delta_store.index.stream_index import StreamIndex


class StreamView(Protocol):
    """One stream, of which durable messages may be delivered."""

    @property
    def name(self) -> str:
        """The stream's name."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether its messages are known; of a past state they are read first."""
        ...

    @property
    def durable_seq(self) -> int:
        """The last sequence that may be delivered."""
        ...

    @property
    def index(self) -> StreamIndex:
        """Live messages; may hold some above :attr:`durable_seq`."""
        ...

    @property
    def removals(self) -> int:
        """A number that changes whenever messages leave the stream."""
        ...

    @property
    def retention(self) -> str:
        """``limits``, ``interest`` or ``workqueue``."""
        ...

    def content_size(self, seq: int) -> int:
        """Return the bytes of headers and payload of a live message."""
        ...
