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
_HTML: Final = re.compile("[<>&\u2028\u2029]")
_SPARE: Final = 1024


class BrokenCounter(Exception):
    """The last message of a subject holds no total."""


class Total(NamedTuple):
    """What a counter's last message holds."""

    value: int
    sources: bytes
    """``Nats-Counter-Sources``: what other streams contributed, empty for nothing."""

    def with_source(self, source: bytes, data: bytes) -> tuple[int, bytes]:
        """What a counter's copy from another stream adds: the increment and the contributions with it.

        ``source`` is the copy's ``Nats-Stream-Source``, ``data`` holds the origin's total. Only the difference to what
        the origin contributed before counts, so that a total that is copied twice adds nothing. Raises
        :class:`BrokenCounter`.
        """
        told, copied = source.decode(errors="replace").split(" "), _total(data, b"")
        stream, subject = told[0], told[4] if len(told) > 4 else ""
        if copied is None:
            raise BrokenCounter
        shares: dict[str, dict[str, str]] = json.loads(self.sources) if self.sources else {}
        share = shares.setdefault(stream, {})
        before, share[subject] = share.get(subject, "0"), str(copied.value)
        return copied.value - _number(before), _go_json(shares)


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
        shares = json.loads(sources) if sources else {}
    except ValueError:
        return None
    if not isinstance(value, str) or not _are_shares(shares):
        return None
    return Total(_number(value), sources)


def _number(value: str) -> int:
    return int(value) if _NUMBER.fullmatch(value) else 0


def _are_shares(shares: object) -> bool:
    """Whether this is ``{stream: {subject: total}}``."""
    if not isinstance(shares, dict):
        return False
    return all(
        isinstance(one, dict) and all(isinstance(value, str) for value in one.values()) for one in shares.values()
    )


def _go_json(shares: dict[str, dict[str, str]]) -> bytes:
    """As nats-server writes it: sorted, and with what HTML would read escaped."""
    text = json.dumps(shares, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return _HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
