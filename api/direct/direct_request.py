"""What a Direct Get request asks for, read as leniently and refused as strictly as nats-server does.

Two forms: a JSON body on ``$JS.API.DIRECT.GET.<stream>``, or the subject itself behind the stream's name. A request is
either a :class:`DirectRequest` or the header block of the status that refuses it (server/stream.go,
processDirectGetRequest and processDirectGetLastBySubjectRequest; ADR-31).
"""

import json
from typing import Any, NamedTuple, NoReturn

from api.jetstream.go_time import parse_time
from delta_store.config.api_level import level_refused

_UINT64_END = 1 << 64
_INT64_END = 1 << 63


def status_block(status: str) -> bytes:
    """The header block of a reply that is only a status, for example ``408 Bad Request``."""
    return f"NATS/1.0 {status}\r\n\r\n".encode()


EMPTY_REQUEST = status_block("408 Empty Request")
MALFORMED_REQUEST = status_block("408 Malformed Request")
BAD_REQUEST = status_block("408 Bad Request")
REQUIRED_API_LEVEL = status_block("412 Required Api Level")


class DirectRequest(NamedTuple):
    """A request without conflicts; what is absent has its zero value, as in JSON with ``omitempty``."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time_ns: int | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: int = 0
    up_to_time_ns: int | None = None
    no_hdr: bool = False
    max_subjects: int = 0
    """Ours: how many subjects an answer of ``multi_last`` may hold; nats-server ignores the field."""

    @property
    def conflicts(self) -> bool:
        """Whether options are set that exclude each other."""
        timed = self.start_time_ns is not None
        last = bool(self.last_by_subj)
        with_last = self.seq > 0 or timed or bool(self.next_by_subj) or self.batch > 0 or bool(self.multi_last)
        return (
            (last and with_last)
            or (self.seq > 0 and timed)
            or (bool(self.next_by_subj) and bool(self.multi_last))
            or (self.up_to_seq > 0 and self.up_to_time_ns is not None)
        )

    @property
    def names_nothing(self) -> bool:
        """Whether no option says which message is wanted."""
        chosen = self.seq or self.last_by_subj or self.next_by_subj or self.multi_last
        return not chosen and self.start_time_ns is None


def parse_body(header: bytes, body: bytes) -> DirectRequest | bytes:
    """The request of the form with a JSON body, or the status block that refuses it."""
    if level_refused(header):
        return REQUIRED_API_LEVEL
    if not body:
        return EMPTY_REQUEST
    request = _decode(body)
    if request is None:
        return MALFORMED_REQUEST
    if request.names_nothing:
        return EMPTY_REQUEST
    return BAD_REQUEST if request.conflicts else request


def parse_subject(key: str, header: bytes, body: bytes) -> DirectRequest | bytes:
    """The request of the form that names the subject ``key`` behind the stream, or the status block that refuses it."""
    if level_refused(header):
        return REQUIRED_API_LEVEL
    if not body:
        return DirectRequest(last_by_subj=key) if key else BAD_REQUEST
    request = _decode(body)
    if request is None:
        return MALFORMED_REQUEST
    only_form = DirectRequest(max_bytes=request.max_bytes, no_hdr=request.no_hdr, max_subjects=request.max_subjects)
    if not key or request != only_form:
        return BAD_REQUEST
    return DirectRequest(last_by_subj=key, max_bytes=request.max_bytes, no_hdr=request.no_hdr)


def _decode(body: bytes) -> DirectRequest | None:
    """A body read with Go's rules: names in any case, null is absent, the last of equal names wins, no fractions."""
    try:
        values = _JSON.decode(body.decode("utf-8", "replace"))
        if values is None:
            return DirectRequest()
        if not isinstance(values, _Pairs):
            return None
        fields: dict[str, Any] = {}
        for name, value in values.pairs:
            read = _FIELDS.get(name) or _FIELDS.get(name.casefold())
            if read is not None and value is not None:
                fields[read[0]] = read[1](value)
        return DirectRequest(**fields)
    except (ValueError, RecursionError):
        return None


class _Pairs:
    """A JSON object as it was written; a plain list is a JSON array."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_no_constant)


def _unsigned(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _UINT64_END:
        raise ValueError(value)
    return value


def _signed(value: Any) -> int:
    if type(value) is not int or not -_INT64_END <= value < _INT64_END:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error says "not of the request's form", whatever is wrong
    return value.encode("utf-8", "replace").decode()


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(value)  # noqa: TRY004 - see _text
    return tuple("" if one is None else _text(one) for one in value)


def _time(value: Any) -> int:
    return parse_time(_text(value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - see _text
    return value


_FIELDS: dict[str, tuple[str, Any]] = {
    "seq": ("seq", _unsigned),
    "last_by_subj": ("last_by_subj", _text),
    "next_by_subj": ("next_by_subj", _text),
    "batch": ("batch", _signed),
    "max_bytes": ("max_bytes", _signed),
    "start_time": ("start_time_ns", _time),
    "multi_last": ("multi_last", _texts),
    "up_to_seq": ("up_to_seq", _unsigned),
    "up_to_time": ("up_to_time_ns", _time),
    "no_hdr": ("no_hdr", _flag),
    "silt_max_subjects": ("max_subjects", _unsigned),
}
