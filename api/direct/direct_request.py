"""Direct Get requests, parsed as leniently and refused as strictly as by nats-server.

Two forms: a JSON body on ``$JS.API.DIRECT.GET.<stream>``, or the subject itself behind the stream's name. The result is
a :class:`DirectRequest`, or the header block of the status that refuses the request (server/stream.go,
processDirectGetRequest and processDirectGetLastBySubjectRequest; ADR-31).
"""

from typing import NamedTuple

from api.jetstream.request_shapes import MSG_GET_REQUEST
from delta_store.config.api_level import level_refused
from delta_store.dialect.json_shapes import UINT64, Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError
from delta_store.values.point_shape import AS_OF

_REQUEST = Struct(MSG_GET_REQUEST.name, {**MSG_GET_REQUEST.fields, "silt_max_subjects": UINT64}, is_open=True)
_NAMES = {
    "start_time": "start_time_ns",
    "up_to_time": "up_to_time_ns",
    "silt_max_subjects": "max_subjects",
    AS_OF: "as_of",
}


def status_block(status: str) -> bytes:
    """Return the header block of a status reply, for example ``408 Bad Request``."""
    return f"NATS/1.0 {status}\r\n\r\n".encode()


EMPTY_REQUEST = status_block("408 Empty Request")
MALFORMED_REQUEST = status_block("408 Malformed Request")
BAD_REQUEST = status_block("408 Bad Request")
REQUIRED_API_LEVEL = status_block("412 Required Api Level")


class DirectRequest(NamedTuple):
    """A request; absent fields have their zero value, as in JSON with ``omitempty``."""

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
    """Silt's own: most subjects of a ``multi_last`` reply; nats-server ignores the field."""
    as_of: str = ""
    """Silt's own: the past point that all forms of a request may ask for; nats-server ignores the field."""

    @property
    def conflicts(self) -> bool:
        """Whether fields are set that exclude each other."""
        timed = self.start_time_ns is not None
        last = bool(self.last_by_subj)
        with_last = self.seq > 0 or timed or bool(self.next_by_subj) or self.batch > 0 or bool(self.multi_last)
        return (
            (last and with_last)
            or (self.seq > 0 and timed)
            or (bool(self.next_by_subj) and bool(self.multi_last))
            or (self.up_to_seq > 0 and self.up_to_time_ns is not None)
            or (bool(self.as_of) and (self.up_to_seq > 0 or self.up_to_time_ns is not None))
        )

    @property
    def names_nothing(self) -> bool:
        """Whether no field selects a message."""
        chosen = self.seq or self.last_by_subj or self.next_by_subj or self.multi_last
        return not chosen and self.start_time_ns is None


def parse_body(header: bytes, body: bytes) -> DirectRequest | bytes:
    """Parse a request with a JSON body; return it, or the status block that refuses it."""
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
    """Parse a request with the subject ``key`` behind the stream; return it, or the status block that refuses it."""
    if level_refused(header):
        return REQUIRED_API_LEVEL
    if not body:
        return DirectRequest(last_by_subj=key) if key else BAD_REQUEST
    request = _decode(body)
    if request is None:
        return MALFORMED_REQUEST
    only_form = DirectRequest(
        max_bytes=request.max_bytes,
        no_hdr=request.no_hdr,
        max_subjects=request.max_subjects,
        as_of=request.as_of,
    )
    if not key or request != only_form:
        return BAD_REQUEST
    return only_form._replace(last_by_subj=key, max_subjects=0)


def _decode(body: bytes) -> DirectRequest | None:
    try:
        fields = unmarshal(body, _REQUEST)
    except JsonError:
        return None
    if "multi_last" in fields:
        fields["multi_last"] = tuple(fields["multi_last"])
    return DirectRequest(**{_NAMES.get(name, name): value for name, value in fields.items()})
