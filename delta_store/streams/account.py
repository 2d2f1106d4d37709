"""The limits of the account that all streams share, and what they use of it: nats-server 2.15's rules. Pure.

An operator gives them to a nats-server by the ``jetstream`` block of an account; here they are settings. What a stream
may store is compared with what all streams of its storage hold; what it reserves (``max_bytes``) with what others do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.stream_state import StreamState


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """The limits, in the order and by the names of the API; -1 for none."""

    max_memory: int = -1
    """Bytes of all streams with storage ``memory``."""
    max_storage: int = -1
    """Bytes of all streams with storage ``file``."""
    max_streams: int = -1
    max_consumers: int = -1
    """Of one stream."""
    max_ack_pending: int = -1
    """Of one consumer."""
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    """Highest ``max_bytes`` of a stream."""
    max_bytes_required: bool = False
    """Whether each stream must have ``max_bytes``."""

    def as_json(self) -> dict[str, Any]:
        """Return the limits as an account info shows them."""
        return asdict(self)

    def consumers_of(self, stream: StreamConfig) -> int:
        """Return how many consumers a stream may have; not positive for any number."""
        own, most = stream.max_consumers, self.max_consumers
        return most if own <= 0 or 0 < most < own else own

    def check(self, config: StreamConfig) -> None:
        """Check a configuration by itself. Raises 10113 and 10122."""
        of_memory = config.storage == "memory"
        most = self.memory_max_stream_bytes if of_memory else self.storage_max_stream_bytes
        if self.max_bytes_required and config.max_bytes <= 0:
            raise api_errors.MAX_BYTES_REQUIRED.error
        if 0 < most < config.max_bytes:
            raise api_errors.MAX_BYTES_EXCEED_ACCOUNT.error

    def bytes_of(self, storage: str) -> int:
        """Return the bytes that the streams of a storage may hold together; negative for any number."""
        return self.max_memory if storage == "memory" else self.max_storage


NO_LIMITS: Final = AccountLimits()


class Account:
    """The limits beside the streams that they are about, those that are being restored included."""

    __slots__ = ("_restoring", "_streams", "limits")

    def __init__(self, streams: Mapping[str, StreamState], restoring: Mapping[str, StreamState]) -> None:
        self._streams, self._restoring = streams, restoring
        self.limits = NO_LIMITS
        """Set by who decides; whoever only reads knows none."""

    def admit(self, config: StreamConfig) -> None:
        """Check a stream that is to be there, new or changed, beside the others.

        Raises 10026, 10027, 10028, 10047, and as :meth:`AccountLimits.check`.
        """
        limits, others = self.limits, [one.config for one in self._all() if one.name != config.name]
        limits.check(config)
        if config.name not in self._streams and 0 < limits.max_streams <= len(others):
            raise api_errors.STREAMS_MAX.error
        if 0 < limits.max_consumers < config.max_consumers:
            raise api_errors.CONSUMERS_MAX.error
        most = limits.bytes_of(config.storage)
        if most < 0:
            return
        reserved = sum(one.max_bytes for one in others if one.storage == config.storage and one.max_bytes > 0)
        if reserved + (config.max_bytes if config.max_bytes >= 0 else 1) > most:
            of_memory = config.storage == "memory"
            raise (api_errors.INSUFFICIENT_MEMORY if of_memory else api_errors.INSUFFICIENT_STORAGE).error

    def has_room(self, storage: str, size: int) -> bool:
        """Whether the streams of a storage may hold so many more bytes."""
        most = self.limits.bytes_of(storage)
        return most < 0 or self.used(storage) + size <= most

    def used(self, storage: str) -> int:
        """Return the bytes that the streams of a storage hold."""
        return sum(one.index.bytes for one in self._all() if one.config.storage == storage)

    def _all(self) -> Iterable[StreamState]:
        return chain(self._streams.values(), self._restoring.values())
