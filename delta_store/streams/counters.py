"""Counters (ADR-49): streams with ``allow_msg_counter``, where each message holds its subject's total. Pure.

The totals of live messages are kept in memory, because the next one is computed without reading a payload; they follow
from the messages alone, so they can be rebuilt from rows.
"""

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Final, NamedTuple

from delta_store.dialect.json_reader import only_value
from delta_store.dialect.json_shapes import TEXT, TEXT_MAP, MapOf, Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.json_writer import write_json
from delta_store.index.stream_index import StreamIndex

_SOURCES: Final = re.compile(rb"\r\nNats-Counter-Sources: *(.*?)\r\n", re.DOTALL)
_VALUE: Final = Struct("CounterValue", {"val": TEXT}, is_open=True)
_SHARES: Final = MapOf(TEXT_MAP, "map[string]map[string]string")
"""``{stream: {subject: total}}``"""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_SPARE: Final = 1024
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Exact arithmetic on totals, which have as many digits as a message holds: Python's integers refuse texts of more than
4,300 of them."""


class BrokenCounter(Exception):
    """The last message of a subject holds no total."""


class Total(NamedTuple):
    """The content of a counter's last message."""

    value: Decimal
    """An integer of any size."""
    sources: bytes
    """``Nats-Counter-Sources``: contributions of other streams, empty for none."""

    def with_source(self, source: bytes, data: bytes) -> tuple[Decimal, bytes]:
        """Return the increment of a copy from another stream, and the contributions including it.

        ``source`` is the copy's ``Nats-Stream-Source``, ``data`` holds the origin's total. Only the difference to the
        origin's contribution before counts, so that a total that is copied twice adds nothing. Raises
        :class:`BrokenCounter`.
        """
        told, copied = source.decode(errors="replace").split(" "), _total(data, b"")
        stream, subject = told[0], told[4] if len(told) > 4 else ""
        if copied is None:
            raise BrokenCounter
        shares = _SHARES.decode(only_value(self.sources), {}) if self.sources else {}
        share = shares.get(stream) or {}
        before, shares[stream] = share.get(subject, "0"), share | {subject: str(copied.value)}
        return _EXACT.subtract(copied.value, whole_number(before)), write_json(shares, by_name=True)

    def plus(self, added: Decimal) -> bytes:
        """Return the payload of the message that adds ``added``."""
        return b'{"val":"%b"}' % str(_EXACT.add(self.value, added)).encode()


class Counters:
    """The totals in one stream's live messages."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: dict[int, Total | None] = {}

    def note(self, seq: int, headers: bytes | None, data: bytes) -> None:
        """Add the total of a stored message."""
        found = _SOURCES.search(headers) if headers else None
        self._totals[seq] = _total(data, found[1] if found is not None else b"")

    def last(self, index: StreamIndex, sid: int) -> Total:
        """Return the total of a subject, zero when it has no message; raise :class:`BrokenCounter`."""
        if len(self._totals) > index.msgs + _SPARE:
            self._totals = {seq: total for seq, total in self._totals.items() if index.live.sid_of(seq) >= 0}
        seq = index.ends.last(sid)
        total = self._totals.get(seq) if seq else Total(Decimal(), b"")
        if total is None:
            raise BrokenCounter
        return total


def whole_number(text: str) -> Decimal:
    """Return the integer of a text; 0 if it is none."""
    return _EXACT.plus(Decimal(text)) if _NUMBER.fullmatch(text) else Decimal()


def _total(data: bytes, sources: bytes) -> Total | None:
    try:
        value = unmarshal(data, _VALUE).get("val", "")
        shares = _SHARES.decode(only_value(sources), {}) if sources else None
    except JsonError:
        return None
    return Total(whole_number(value), write_json(shares, by_name=True) if shares else b"")
