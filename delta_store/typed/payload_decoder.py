"""What a decoder of payloads is: a payload in, values for the columns of a table out, or the reason why not. Pure."""

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from delta_store.typed.column_types import Record

_MARKER: Final = re.compile(rb"\r\n(?:Nats-Marker-Reason: *[^\r]|KV-Operation: *(?:DEL|PURGE)\r\n)")


class Misfit(ValueError):
    """A payload does not have its stream's schema; the text says where and why."""


class Unforeseen(Exception):
    """A payload needs other columns than its inferred table has: it is decoded once the table has them."""


class PayloadDecoder(Protocol):
    """The decoder of one schema."""

    record: Record
    """The columns of what is decoded."""
    required: frozenset[str]
    """Names of the columns that every payload must have."""

    def decode(self, payload: bytes) -> Any:
        """Return what is in a payload, for :meth:`columns`; raise :class:`Misfit`, or :class:`Unforeseen`."""

    def columns(self, decoded: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the values of each column of :attr:`record`, as Arrow takes them for its type."""
        ...


def is_marker(headers: bytes) -> bool:
    """Whether a message with this header block only says that its subject has no value any more."""
    return _MARKER.search(headers) is not None
