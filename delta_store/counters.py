"""Counters: streams with ``allow_msg_counter``, where each message holds its subject's total so far. Pure.

The totals of live messages are kept in memory, because the next one is decided without reading a payload; they follow
from the messages alone, so they can be rebuilt from rows.
"""

import json
import re
from typing import Final, NamedTuple

from delta_store.stream_index import StreamIndex

_SOURCES: Final = re.compile(rb"\r\nNats-Counter-Sources: *(.*?)\r\n", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_SPARE: Final = 1024


class BrokenCounter(Exception):
    """The last message of a subject holds no total."""


class Total(NamedTuple):
    """What a counter's last message holds."""

    value: int
    sources: bytes
    """``Nats-Counter-Sources``: what other streams contributed, empty for nothing."""


class Counters:
    """The totals that one stream's live messages hold."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: dict[int, Total | None] = {}

    def note(self, seq: int, headers: bytes | None, data: bytes) -> None:
        """A message was stored."""
        found = _SOURCES.search(headers) if headers else None
        self._totals[seq] = _total(data, found[1] if found is not None else b"")

    def last(self, index: StreamIndex, sid: int) -> Total:
        """The total of a subject, zero when it has no message; raises :class:`BrokenCounter`."""
        if len(self._totals) > index.msgs + _SPARE:
            self._totals = {seq: total for seq, total in self._totals.items() if index.sid_of(seq) >= 0}
        seq = index.last_of_id(sid)
        total = self._totals.get(seq) if seq else Total(0, b"")
        if total is None:
            raise BrokenCounter
        return total


def counter_payload(value: int) -> bytes:
    """The payload of a counter's message."""
    return b'{"val":"%d"}' % value


def _total(data: bytes, sources: bytes) -> Total | None:
    try:
        shown = json.loads(data)
        value = shown.get("val", "") if isinstance(shown, dict) else None
        if sources:
            json.loads(sources)
    except ValueError:
        return None
    if not isinstance(value, str):
        return None
    return Total(int(value) if _NUMBER.fullmatch(value) else 0, sources)
