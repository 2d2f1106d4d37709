"""Ranges and multi-last as tables: every format has the same messages, page after page."""

import csv
import io
import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_store.dialect.times import format_time
from delta_store.stores.replica import Replica
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem, over

MEDIA_TYPES = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
HEADERS = b"NATS/1.0\r\nKind: even\r\nTag: a\r\nTag: b\r\n\r\n"


def stored(folder: Path, count: int = 60) -> History:
    """Messages on three subjects, the even ones with headers, half of them settled; one payload is no text."""
    history, tables = History(), Tables(folder)
    rows = [history.create()]
    for seq in range(1, count + 1):
        payload = b"\xff\xfe" if seq == 3 else f"n {seq}".encode()
        rows.append(history.publish(f"s.{seq % 3}", payload, headers=HEADERS if seq % 2 == 0 else None))
    tables.commit(rows[: count // 2])
    tables.settle()
    tables.commit(rows[count // 2 :])
    return history


def rows_of(kind: str, content: bytes) -> list[tuple[int, str, bytes]]:
    """Sequence, subject and payload of each row of an answer."""
    if kind == "csv":
        lines: Sequence[dict[str, Any]] = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    elif kind == "ndjson":
        lines = [json.loads(line) for line in content.splitlines()]
    else:
        table = pa.ipc.open_stream(content).read_all() if kind == "arrow" else pq.read_table(io.BytesIO(content))
        assert table.schema.field("time").type == pa.timestamp("ns", "UTC")
        return list(zip(*(table[name].to_pylist() for name in ("seq", "subject", "data")), strict=True))
    return [(int(line["seq"]), line["subject"], b64decode(line["data"])) for line in lines]


@pytest.mark.parametrize("kind", MEDIA_TYPES)
def test_a_range_is_the_same_in_every_format(tmp_path: Path, kind: str) -> None:
    """By Accept and by extension, over all pages: the same messages, and each page goes on where the last one ended."""
    history = stored(tmp_path)
    expected = [(row.seq, row.subject, row.data) for row in history.rows if row.seq and row.kind == "message"]

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        for url, accept in ((f"/v1/streams/S/messages.{kind}", "*/*"), ("/v1/streams/S/messages", MEDIA_TYPES[kind])):
            following: str | None = f"{url}?limit=7"
            found = []
            while following is not None:
                answer = await client.get(following, headers={"Accept": accept})
                assert answer.headers["content-type"].partition(";")[0] == MEDIA_TYPES[kind], answer.text[:300]
                found += rows_of(kind, answer.content)
                following = answer.links.get("next", {}).get("url")
            assert found == expected
        nothing = await client.get(f"/v1/streams/S/messages.{kind}?from_seq=1000")
        assert (nothing.status_code, rows_of(kind, nothing.content)) == (200, [])
        tag = (await client.get(f"/v1/streams/S/messages.{kind}")).headers["etag"]
        same = await client.get(f"/v1/streams/S/messages.{kind}", headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")

    over(tmp_path, use)


def test_a_range_ends_where_it_is_told(tmp_path: Path) -> None:
    """At a sequence, inclusive, or a time, exclusive; bounds of one side exclude each other."""
    history = stored(tmp_path)
    times = {row.seq: format_time(row.ts_ns) for row in history.rows if row.kind == "message"}

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        async def seqs(**params: Any) -> list[int]:
            answer = await client.get("/v1/streams/S/messages.ndjson", params=params)
            assert "next" not in answer.links
            return [json.loads(line)["seq"] for line in answer.text.splitlines()]

        assert await seqs(from_seq=5, to_seq=8) == [5, 6, 7, 8]
        assert await seqs(from_time=times[5], to_time=times[8]) == [5, 6, 7]
        assert await seqs(from_time=times[5], to_seq=6, limit=2) == [5, 6]
        assert await seqs(from_seq=9, to_seq=8) == []
        assert await seqs(to_time=times[1]) == []
        for wrong in ("from_seq=1&from_time=2026-01-01T00:00:00Z", "to_seq=1&to_time=2026-01-01T00:00:00Z"):
            check_problem(await client.get(f"/v1/streams/S/messages?{wrong}"), 400, 10003)
        check_problem(await client.get("/v1/streams/S/messages.xlsx"), 400, 10003)

    over(tmp_path, use)


def test_messages_are_chosen_by_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, by any of its values, by several at once; pages lead through however much is looked at."""
    stored(tmp_path)
    monkeypatch.setattr("api.rest.ranges.HEADER_FILTER_MESSAGES_MAX", 11)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        async def seqs(query: str) -> list[int]:
            following: str | None = f"/v1/streams/S/messages?{query}"
            found: list[int] = []
            while following is not None:
                answer = await client.get(following)
                lines = answer.text.splitlines()
                assert len(lines) <= 4
                found += [json.loads(line)["seq"] for line in lines]
                following = answer.links.get("next", {}).get("url")
            return found

        even = list(range(2, 61, 2))
        assert await seqs("limit=4&header=Kind") == even
        assert await seqs("limit=4&header=Kind:even&header=Tag:%20b") == even
        assert await seqs("limit=4&header=Kind&subject=s.0") == [seq for seq in even if seq % 3 == 0]
        assert await seqs("limit=4&header=Kind&to_seq=9") == [2, 4, 6, 8]
        assert await seqs("limit=4&header=Tag:c") == []
        check_problem(await client.get("/v1/streams/S/messages?header=:x"), 400, 10003)

    over(tmp_path, use)


@pytest.mark.parametrize("kind", MEDIA_TYPES)
def test_multi_last_is_the_same_in_every_format(tmp_path: Path, kind: str) -> None:
    """Now and in the past; the point stands in a header, and pages of a point show that point."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        for point in ("", "&up_to_seq=9"):
            expected = (await client.get(f"/v1/streams/S/multi-last?subject=s.*{point}")).json()
            following: str | None = f"/v1/streams/S/multi-last.{kind}?subject=s.*&limit=2{point}"
            found = []
            while following is not None:
                answer = await client.get(following)
                assert answer.headers["silt-up-to-seq"] == str(expected["up_to_seq"])
                found += rows_of(kind, answer.content)
                following = answer.links.get("next", {}).get("url")
            assert [seq for seq, *_ in found] == [message["seq"] for message in expected["messages"]]
        accepted = await client.get("/v1/streams/S/multi-last?subject=s.1", headers={"Accept": MEDIA_TYPES[kind]})
        assert len(rows_of(kind, accepted.content)) == 1

    over(tmp_path, use)


def test_answers_are_compressed_as_the_client_likes_best(tmp_path: Path) -> None:
    """The client's quality decides, then zstd before gzip; Parquet compresses itself, and small answers stay."""
    stored(tmp_path, count=300)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        url = "/v1/streams/S/messages"
        plain = (await client.get(url, headers={"Accept-Encoding": "identity"})).content
        for accepted, coding in {
            "gzip, zstd": "zstd",
            "gzip, zstd;q=0.5": "gzip",
            "zstd;q=0, gzip": "gzip",
            "br": None,
            "*": None,
        }.items():
            async with client.stream("GET", url, headers={"Accept-Encoding": accepted}) as answer:
                raw = b"".join([part async for part in answer.aiter_raw()])
            assert (answer.headers.get("content-encoding"), answer.headers["vary"]) == (
                coding,
                "Accept, Accept-Encoding",
            )
            if coding == "zstd":
                raw = pa.CompressedInputStream(pa.BufferReader(raw), "zstd").read()
            elif coding == "gzip":
                raw = pa.CompressedInputStream(pa.BufferReader(raw), "gzip").read()
            assert raw == plain
        for path in (f"{url}.parquet", f"{url}/1"):
            assert "content-encoding" not in (await client.get(path, headers={"Accept-Encoding": "zstd"})).headers

    over(tmp_path, use)
