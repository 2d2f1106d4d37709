"""Requests of Direct Get, and the pages of a batch (ADR-31). Pure.

A batch has no flow control, so a large one is requested in pages of bytes: the end of a page (204 EOB) gives the
number of messages left and the last sequence. All pages of a ``multi_last`` name the same upper sequence, and so are
one view of the stream.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from consumers.client.errors import BatchUnsupported, DirectGetError, NoResponders, UsageError, direct_get_error
from consumers.client.pull_status import read_status
from consumers.client.stored_message import StoredMessage, from_direct, is_stored, write_time

PAGE_BYTES = 8 * 1024 * 1024
"""Most bytes of a page, which waits in memory until the program has read it."""
ALL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DirectQuery:
    """One request; a field that is None is left out."""

    seq: int | None = None
    last_by_subj: str | None = None
    next_by_subj: str | None = None
    start_time: datetime | None = None
    batch: int | None = None
    max_bytes: int | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: int | None = None
    up_to_time: datetime | None = None
    max_subjects: int | None = None
    as_of: str | None = None

    @property
    def body(self) -> bytes:
        """The request in JSON."""
        fields: dict[str, object] = {
            "seq": self.seq,
            "last_by_subj": self.last_by_subj,
            "next_by_subj": self.next_by_subj,
            "start_time": write_time(self.start_time) if self.start_time else None,
            "batch": self.batch,
            "max_bytes": self.max_bytes,
            "multi_last": list(self.multi_last) or None,
            "up_to_seq": self.up_to_seq,
            "up_to_time": write_time(self.up_to_time) if self.up_to_time else None,
            "silt_max_subjects": self.max_subjects,
            "silt_as_of": self.as_of,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def one_query(
    seq: int | None,
    last_for: str | None,
    next_for: str | None,
    start_time: datetime | None,
    *,
    as_of: str | None = None,
) -> DirectQuery:
    """Return the query for one message; raises :class:`UsageError` for combinations that the server refuses."""
    if last_for is not None and (seq, next_for, start_time) != (None, None, None):
        raise UsageError("last_for stands alone")
    if seq is not None and start_time is not None:
        raise UsageError("seq and start_time exclude each other")
    if (seq, last_for, next_for, start_time) == (None, None, None, None):
        raise UsageError("which message? seq, last_for, next_for or start_time")
    return DirectQuery(
        seq=seq, last_by_subj=last_for, next_by_subj=next_for, start_time=_zoned(start_time), as_of=as_of
    )


def batch_query(  # the request's fields, by name
    batch: int,
    *,
    seq: int | None,
    subject: str | None,
    start_time: datetime | None,
    max_bytes: int | None,
    as_of: str | None = None,
) -> DirectQuery:
    """Return the query for messages from a sequence or time on, by default from the first; raises UsageError."""
    if batch < 1 or (max_bytes is not None and max_bytes < 1):
        raise UsageError("batch and max_bytes are at least 1")
    if seq is not None and start_time is not None:
        raise UsageError("seq and start_time exclude each other")
    if seq is None and start_time is None:
        seq = 1
    start_time = _zoned(start_time)
    return DirectQuery(
        seq=seq, next_by_subj=subject, start_time=start_time, batch=batch, max_bytes=max_bytes, as_of=as_of
    )


def last_query(
    subjects: Sequence[str],
    *,
    up_to_seq: int | None,
    up_to_time: datetime | None,
    batch: int | None,
    max_subjects: int | None = None,
    as_of: str | None = None,
) -> DirectQuery:
    """Return the query for the last message of each subject; raises UsageError."""
    if isinstance(subjects, str) or not subjects:
        raise UsageError("subjects is a list with at least one subject or filter")
    if sum(one is not None for one in (up_to_seq, up_to_time, as_of)) > 1:
        raise UsageError("up_to_seq, up_to_time and as_of exclude each other")
    if batch is not None and batch < 1:
        raise UsageError("batch is at least 1")
    if max_subjects is not None and max_subjects < 1:
        raise UsageError("max_subjects is at least 1")
    return DirectQuery(
        multi_last=tuple(subjects),
        up_to_seq=up_to_seq,
        up_to_time=_zoned(up_to_time),
        batch=batch,
        max_subjects=max_subjects,
        as_of=as_of,
    )


def _zoned(time: datetime | None) -> datetime | None:
    if time is not None and time.tzinfo is None:
        raise UsageError("a time needs its zone")
    return time


def refused(headers: Mapping[str, str] | None) -> DirectGetError:
    """Return the error for a status; that of a point which is not kept any more names the oldest one that is."""
    status, told = read_status(headers), headers or {}
    names = {"sequence": told.get("Silt-Oldest-Sequence"), "the time": told.get("Silt-Oldest-Time")}
    oldest = ", or ".join(f"{name} {value}" for name, value in names.items() if value)
    more = f"; the oldest that can be read is {oldest}" if oldest else ""
    return direct_get_error(status.code, status.description + more)


class EndOfBatch(NamedTuple):
    """The server's report at the end of a batch."""

    num_pending: int
    """Number of matching messages left."""
    last_seq: int
    """Sequence of the last message sent."""
    up_to_seq: int | None
    """For last messages by subject: the sequence at which all pages view the stream."""


class DirectPages:
    """The replies of a batch, and the requests of its pages."""

    def __init__(self, query: DirectQuery) -> None:
        self._query = query
        self._left = query.batch or ALL
        self._paged = query.max_bytes is None
        self._in_page = 0
        self._last: EndOfBatch | None = None
        self.end: EndOfBatch | None = None
        """The end of the last page; None before."""

    @property
    def request(self) -> DirectQuery:
        """The request of the next page."""
        return replace(self._query, max_bytes=PAGE_BYTES) if self._paged else self._query

    def reply(self, headers: Mapping[str, str] | None, data: bytes) -> StoredMessage | EndOfBatch:
        """Decode a message or the end of a page; raises a DirectGetError for any other status."""
        if headers is not None and is_stored(headers):
            if "Nats-Num-Pending" not in headers:
                raise BatchUnsupported
            self._in_page += 1
            return from_direct(headers, data)
        status = read_status(headers)
        if status.code == 204:
            return self._page_ended(headers or {})
        if status.code == 404 and self._last is not None:
            self.end = self._last._replace(num_pending=0)  # the messages left were removed since
            return self.end
        if status.code == 503:
            raise NoResponders("nobody serves Direct Get for this stream: it does not exist, or allow_direct is off")
        raise refused(headers)

    def _page_ended(self, headers: Mapping[str, str]) -> EndOfBatch:
        up_to = headers.get("Nats-UpTo-Sequence")
        end = EndOfBatch(
            int(headers.get("Nats-Num-Pending", 0)),
            int(headers.get("Nats-Last-Sequence", 0)),
            int(up_to) if up_to else None,
        )
        self._last = end
        self._left -= self._in_page
        if not self._paged or self._left <= 0 or end.num_pending == 0 or self._in_page == 0:
            self.end = end
        else:
            self._query = replace(
                self._query,
                seq=end.last_seq + 1,
                start_time=None,
                batch=self._left if self._query.batch else None,
                up_to_seq=end.up_to_seq if self._query.as_of is None else None,
                up_to_time=None,
            )
        self._in_page = 0
        return end
