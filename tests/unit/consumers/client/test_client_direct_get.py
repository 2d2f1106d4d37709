"""Direct Get's requests, and batches over pages of any size: every message once, and the end told."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.client.direct_get import (
    PAGE_BYTES,
    DirectPages,
    DirectQuery,
    EndOfBatch,
    batch_query,
    last_query,
    one_query,
)
from consumers.client.errors import BatchUnsupported, ErrorKind, JetStreamError, NoResponders, UsageError
from consumers.client.stored_message import StoredMessage

TIME = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone(timedelta(hours=2)))


def _headers(seq: int, pending: int | None) -> dict[str, str]:
    headers = {
        "Nats-Stream": "S", "Nats-Subject": "s", "Nats-Sequence": str(seq),
        "Nats-Time-Stamp": "2026-01-01T00:00:00.000000001Z", "Status": "204",
    }  # fmt: skip
    return headers | ({} if pending is None else {"Nats-Num-Pending": str(pending), "Nats-Last-Sequence": "0"})


def _server(stream: list[int], request: dict[str, Any], page: int) -> list[dict[str, str]]:
    """What a server with that stream answers, with ``page`` messages as the bytes allow."""
    multi = "multi_last" in request
    up_to = request.get("up_to_seq", stream[-1])
    found = [seq for seq in stream if seq >= request.get("seq", 1) and (not multi or seq <= up_to)]
    if not found:
        return [{"Status": "404", "Description": "Message Not Found"}]
    sent = found[: min(page, request.get("batch", len(found)))]
    replies = [_headers(seq, len(found) - at - 1) for at, seq in enumerate(sent)]
    end = {"Status": "204", "Description": "EOB", "Nats-Num-Pending": str(len(found) - len(sent))}
    end |= {"Nats-Last-Sequence": str(sent[-1])} | ({"Nats-UpTo-Sequence": str(up_to)} if multi else {})
    return [*replies, end]


def _read(
    query: DirectQuery, stream: list[int], page: int
) -> tuple[list[int], EndOfBatch | None, list[dict[str, Any]]]:
    pages, seqs, requests = DirectPages(query), [], []
    while pages.end is None:
        request = json.loads(pages.request.body)
        requests.append(request)
        for headers in _server(stream, request, page):
            item = pages.reply(headers, b"")
            if isinstance(item, StoredMessage):
                seqs.append(item.seq)
    return seqs, pages.end, requests


STREAM = st.lists(st.integers(1, 60), min_size=1, max_size=25, unique=True).map(sorted)


@given(STREAM, st.integers(1, 30), st.integers(1, 8))
def test_a_batch_is_complete_however_it_is_paged(stream: list[int], batch: int, page: int) -> None:
    """As many messages as asked for come, each once, in as many pages as it takes."""
    query = batch_query(batch, seq=None, subject=None, start_time=None, max_bytes=None)
    seqs, end, requests = _read(query, stream, page)
    assert seqs == stream[:batch]
    assert end == EndOfBatch(len(stream) - len(seqs), seqs[-1], None)
    assert all(request["max_bytes"] == PAGE_BYTES for request in requests)


@given(STREAM, st.one_of(st.none(), st.integers(1, 30)), st.integers(1, 8))
def test_pages_of_last_messages_are_one_view(stream: list[int], batch: int | None, page: int) -> None:
    """Every later page names the upper sequence of the first, and no other point."""
    seqs, end, requests = _read(last_query(["s.>"], up_to_seq=None, up_to_time=TIME, batch=batch), stream, page)
    assert seqs == stream[:batch]
    assert end is not None
    assert end.up_to_seq == stream[-1]
    for request in requests[1:]:
        assert request["up_to_seq"] == stream[-1]
        assert "up_to_time" not in request


def test_own_bytes_make_one_page() -> None:
    """With a limit of bytes from the caller, its end is the end."""
    query = batch_query(10, seq=3, subject="s", start_time=None, max_bytes=100)
    seqs, end, requests = _read(query, [1, 2, 3, 4, 5], 2)
    assert (seqs, end, len(requests)) == ([3, 4], EndOfBatch(1, 4, None), 1)
    assert requests[0] == {"seq": 3, "next_by_subj": "s", "batch": 10, "max_bytes": 100}


def test_messages_that_go_between_pages_are_the_end() -> None:
    """Nothing left on a later page is an end, not an error; on the first page it is the error."""
    pages = DirectPages(batch_query(10, seq=None, subject=None, start_time=None, max_bytes=None))
    pages.reply(_headers(1, 3), b"")
    pages.reply({"Status": "204", "Nats-Num-Pending": "3", "Nats-Last-Sequence": "1"}, b"")
    assert pages.end is None
    assert pages.reply({"Status": "404"}, b"") == EndOfBatch(0, 1, None)
    assert pages.end == EndOfBatch(0, 1, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("404", ErrorKind.NOTHING_FOUND),
        ("408", ErrorKind.BAD_DIRECT_GET),
        ("413", ErrorKind.TOO_MANY_SUBJECTS),
        ("412", ErrorKind.API_LEVEL_TOO_LOW),
        ("500", ErrorKind.DIRECT_GET_FAILED),
        ("503", ErrorKind.NO_RESPONDERS),
    ],
)
def test_statuses_are_typed(status: str, kind: ErrorKind) -> None:
    """Every status other than the end is an error of its kind."""
    pages = DirectPages(last_query(["s"], up_to_seq=None, up_to_time=None, batch=None))
    with pytest.raises(JetStreamError) as caught:
        pages.reply({"Status": status, "Description": "text"}, b"")
    assert caught.value.kind == kind
    assert isinstance(caught.value, NoResponders) == (status == "503")


def test_a_server_without_batches_is_found_out() -> None:
    """A single message without the count of those behind it is an old server's answer."""
    pages = DirectPages(batch_query(10, seq=None, subject=None, start_time=None, max_bytes=None))
    with pytest.raises(BatchUnsupported):
        pages.reply(_headers(1, None), b"")


def test_requests_say_what_is_asked() -> None:
    """Each form has its fields and no other; times keep their zone."""
    assert json.loads(one_query(5, None, None, None).body) == {"seq": 5}
    assert json.loads(one_query(None, "a.*", None, None).body) == {"last_by_subj": "a.*"}
    assert json.loads(one_query(5, None, "a", None).body) == {"seq": 5, "next_by_subj": "a"}
    assert json.loads(one_query(None, None, "a", TIME).body) == {
        "next_by_subj": "a", "start_time": "2026-01-02T03:04:05.678000+02:00",
    }  # fmt: skip
    assert json.loads(batch_query(3, seq=None, subject="a", start_time=None, max_bytes=None).body) == {
        "seq": 1, "next_by_subj": "a", "batch": 3,
    }  # fmt: skip
    assert json.loads(last_query(("a", "b"), up_to_seq=9, up_to_time=None, batch=2).body) == {
        "multi_last": ["a", "b"], "up_to_seq": 9, "batch": 2,
    }  # fmt: skip


def test_contradictions_are_refused_before_they_are_sent() -> None:
    """What the server would answer with 408 is a usage error, as is a time that could be any."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  # the point of it
    wrongs: tuple[Callable[[], object], ...] = (
        lambda: one_query(None, None, None, None),
        lambda: one_query(1, "a", None, None),
        lambda: one_query(1, None, None, TIME),
        lambda: one_query(None, None, None, naive),
        lambda: batch_query(0, seq=None, subject=None, start_time=None, max_bytes=None),
        lambda: batch_query(1, seq=1, subject=None, start_time=TIME, max_bytes=None),
        lambda: batch_query(1, seq=1, subject=None, start_time=None, max_bytes=0),
        lambda: last_query([], up_to_seq=None, up_to_time=None, batch=None),
        lambda: last_query("a", up_to_seq=None, up_to_time=None, batch=None),
        lambda: last_query(["a"], up_to_seq=1, up_to_time=datetime.now(UTC), batch=None),
        lambda: last_query(["a"], up_to_seq=None, up_to_time=None, batch=0),
        lambda: last_query(["a"], up_to_seq=None, up_to_time=None, batch=None, max_subjects=0),
    )
    for wrong in wrongs:
        with pytest.raises(UsageError):
            wrong()
