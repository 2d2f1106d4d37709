"""Mirrors and sources: which messages they copy, and their positions. Pure.

A mirror keeps the sequences and times of its origin, so its position is its own last sequence. A stream with sources
numbers its messages itself, so the position of each source is recorded, beside the ``Nats-Stream-Source`` header of
every copy. Names, header and starting points are those of nats-server 2.15 (server/stream.go).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

from conf.limits import SEQUENCE_MAX
from delta_store.config import api_errors
from delta_store.config.stream_parts import StreamSource
from delta_store.config.subject_transform import SubjectTransform
from delta_store.index.matching import count_matching, iter_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.heard_origin import HeardOrigin
from delta_store.values.subject_relations import SubjectTrie
from delta_store.values.subjects import SubjectFilter

Json = dict[str, Any]
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LINE: Final = b"NATS/1.0\r\n"
_HEADER: Final = b"Nats-Stream-Source"
_NOT_MIRRORED: Final = (b"Nats-Expected-", b"Nats-Batch-")
_NOT_COPIED: Final = (_HEADER + b":", *_NOT_MIRRORED)


class SourcePosition(NamedTuple):
    """The position of a source in its origin."""

    seq: int
    """The last sequence of the origin that was copied or skipped."""
    identity: str
    """Distinguishes the origin from another stream of its name, see :func:`identity`."""


Positions = Mapping[str, SourcePosition]
"""The positions of a stream's sources, by :func:`index_name`."""


CAUGHT_UP: Final = b'{"positions":{},"caught_up":true}'
"""The ``data`` of a mirror's SOURCE_STATE row: it has caught up with its origin once."""


def positions_data(positions: Positions) -> bytes:
    """Return the ``data`` of a SOURCE_STATE row."""
    shown = {name: list(position) for name, position in sorted(positions.items())}
    return json.dumps({"positions": shown}, separators=(",", ":")).encode()


def read_positions(data: bytes) -> tuple[dict[str, SourcePosition], bool]:
    """Return the positions of a SOURCE_STATE row, and whether it is that of a mirror that has caught up."""
    said = json.loads(data)
    shown: dict[str, list[Any]] = said["positions"]
    found = {name: SourcePosition(int(seq), str(identity)) for name, (seq, identity) in shown.items()}
    return found, bool(said.get("caught_up"))


def index_name(source: StreamSource) -> str:
    """Return what distinguishes the sources of one stream: origin, filters and destinations."""
    name = source.name
    if source.external is not None:
        name += f":{short_hash(source.external.api)}"
    if source.consumer is not None:
        name += f":C={short_hash(source.consumer.name)}"
    mappings = source.subject_transforms
    if not mappings:
        return f"{name} {source.filter_subject or '>'} >"
    filters, dests = "\f".join(one.src or ">" for one in mappings), "\f".join(one.dest or ">" for one in mappings)
    return f"{name} {filters} {dests}"


def identity(name: str, stream_id: int) -> str:
    """Return eight letters that distinguish a stream from earlier ones of its name."""
    return short_hash(f"{name} {stream_id}")


def short_hash(text: str) -> str:
    """Return the eight letters and digits by which nats-server tells texts apart."""
    return "".join(_DIGITS[byte % len(_DIGITS)] for byte in sha256(text.encode()).digest()[:8])


def is_local(source: StreamSource, domain: str) -> bool:
    """Whether the origin is a stream of this store: of no other domain or account than ``domain``."""
    return source.external is None or bool(domain and source.external.api == f"$JS.{domain}.API")


class Selection:
    """The messages that a source copies, and the subjects of the copies."""

    __slots__ = ("_mappings", "_places", "filter")

    def __init__(self, source: StreamSource) -> None:
        mappings = source.subject_transforms
        filters = [one.src or ">" for one in mappings] or ([source.filter_subject] if source.filter_subject else [])
        self.filter = SubjectFilter(filters) if filters and ">" not in filters else None
        """None for all messages."""
        changing = [one for one in mappings if one.dest]
        self._mappings = [SubjectTransform(one.src, one.dest) for one in changing]
        self._places = SubjectTrie((one.src or ">", place) for place, one in enumerate(changing))

    def subject(self, subject: str) -> str:
        """Return the subject of the copy."""
        for place in sorted(one.value for one in self._places.matching(subject)):
            found = self._mappings[place].match(subject)
            if found is not None:
                return found
        return subject

    def subjects(self, subjects: Sequence[str]) -> Sequence[str]:
        """Return :meth:`subject` of each."""
        return [self.subject(one) for one in subjects] if self._mappings else subjects

    def sequences(self, origin: StreamIndex, from_seq: int, *, up_to: int, limit: int) -> list[int]:
        """Return the next sequences to copy, at most ``limit`` and none behind ``up_to``, ascending."""
        found: Iterator[int] = iter_matching(origin, self.filter, from_seq)
        return list(islice(takewhile(lambda seq: seq <= up_to, found), limit))


def mirror_start(source: StreamSource, mirror: StreamIndex, origin: StreamIndex) -> int:
    """Return the first sequence that a mirror copies next."""
    if mirror.last_seq or mirror.first_seq:
        return mirror.last_seq + 1
    if source.opt_start_seq:
        return min(source.opt_start_seq, SEQUENCE_MAX)
    return origin.seq_at_time(source.opt_start_time) if source.opt_start_time is not None else 1


def source_start(
    source: StreamSource, target: StreamIndex, origin: StreamIndex, position: SourcePosition | None
) -> int:
    """Return the first sequence that a source copies next; ``position`` is that in its present origin, or None."""
    if position is not None and position.seq:
        return position.seq + 1
    if source.opt_start_seq:
        return min(source.opt_start_seq, SEQUENCE_MAX)
    since = source.opt_start_time
    if since is not None:
        return origin.seq_at_time(max(since, target.last_ts))
    if target.first_seq > 1 and target.last_ts and position is None:
        return origin.seq_at_time(target.last_ts)
    return 1


def sourced_header(header: bytes | None, index: str, *, seq: int, subject: str, identity: str) -> bytes:
    """Return the header block of a source's copy; ``subject`` is the one in the origin, ``identity`` may be empty."""
    name, filters, dests = index.split(" ")
    said = f"{name} {seq} {filters} {dests} {subject}" + (f" {identity}" if identity else "")
    field = f"{_HEADER.decode()}: {said}\r\n\r\n".encode()
    if not header:
        return _LINE + field
    return _without(header, _NOT_COPIED)[:-2] + field


def read_sourced(header: bytes) -> tuple[str, SourcePosition] | None:
    """Return the source that a copy's header names, by :func:`index_name`, and its position; None without one."""
    start = header.find(b"\r\n" + _HEADER + b": ")
    if start < 0:
        return None
    words = header[start + 2 :].split(b"\r\n", 1)[0].decode(errors="replace").split(" ")[1:]
    if len(words) < 4 or not words[1].isdecimal() or len(words[1]) > 19:
        return None
    name, seq, filters, dests, *rest = words
    return f"{name} {filters} {dests}", SourcePosition(int(seq), rest[1] if len(rest) > 1 else "")


def mirrored_header(header: bytes | None) -> bytes | None:
    """Return the header block of a mirror's copy; None when no field of it is left."""
    kept = _without(header, _NOT_MIRRORED) if header else None
    return kept if kept != _LINE + b"\r\n" else None


def _without(header: bytes, names: tuple[bytes, ...]) -> bytes:
    """Return the block without the fields whose names begin with one of ``names``."""
    if b"\r\nNats-" not in header or not any(b"\r\n" + one in header for one in names):
        return header
    lines = header[:-2].split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(names)) + b"\r\n"


def shown(source: StreamSource, origin: StreamIndex | None, *, next_seq: int, seq: int) -> Json:
    """Return a source's part of stream info: ``seq`` is its position (0: omitted), ``next_seq`` the next it copies."""
    if origin is None:
        error = None if source.external is not None else api_errors.STREAM_NOT_FOUND.error.as_json()
        return told(source, lag=0, seq=seq, active=-1, error=error)
    # Copies within the store are immediate; clients take 0 for never.
    return told(source, lag=count_matching(origin, Selection(source).filter, next_seq), seq=seq, active=1)


def heard(source: StreamSource, origin: HeardOrigin, *, seq: int, now_ns: int) -> Json:
    """Return :func:`shown` of a source that is elsewhere, as it was heard."""
    active = max(1, now_ns - origin.last_ns) if origin.last_ns else -1
    seq = 0 if origin.recreated else seq
    return told(source, lag=origin.lag, seq=seq, active=active, error=origin.error)


def told(source: StreamSource, *, lag: int, seq: int, active: int, error: Json | None = None) -> Json:
    """Return a source's part of stream info; ``active`` is for how long (ns) it was not heard, -1 for never."""
    said: Json = {"name": source.name}
    if source.external is not None:
        said["external"] = source.external._asdict()
    said["lag"] = lag
    if seq:
        said["seq"] = seq
    said["active"] = active
    if error is not None:
        said["error"] = error
    if source.filter_subject:
        said["filter_subject"] = source.filter_subject
    if source.subject_transforms:
        said["subject_transforms"] = [one._asdict() for one in source.subject_transforms]
    return said
