"""The REST API over real tables: every route, its errors, its tags and its pages."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.rest.app import create_app
from conf.clock import SystemClock
from conf.settings import HttpSettings, Settings
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect.times import format_time
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from delta_store.streams.event_rows import stream_data
from delta_store.values.records import Kind
from tests.tables import History, Tables

HEADERS = b"NATS/1.0\r\nA: one\r\nB: x\r\nA: two\r\n\r\n"


def stored(folder: Path) -> tuple[Tables, History]:
    """Two values of each of three subjects with a limit of one, half of it settled."""
    history, tables = History(per_subject=1), Tables(folder)
    rows = [history.create()]
    rows += [history.publish(f"s.{number}", headers=HEADERS if number == 1 else None) for number in (1, 2, 3)]
    tables.commit(rows)
    tables.settle()
    tables.commit([history.publish("s.1", b"\xff\xfe"), history.publish("s.2", "grün".encode())])
    tables.settle()
    tables.apply_limits()
    tables.commit([history.publish("s.4/x y".replace(" ", "_"))])
    return tables, history


def over(folder: Path, use: Callable[[httpx.AsyncClient, Replica], Awaitable[None]], **http: Any) -> None:
    """Run ``use`` with a client of the API over the tables in ``folder``."""

    async def run() -> None:
        threads = ReadThreads(2, timeout_seconds=20)
        replica = Replica(str(folder), threads, clock=SystemClock())
        await replica.open()
        transport = httpx.ASGITransport(create_app(replica, Settings(http=HttpSettings(**http))))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await use(client, replica)
        threads.close()

    asyncio.run(run())


def check_problem(answer: httpx.Response, status: int, err_code: int) -> None:
    """An error is problem details, whatever it is."""
    said = (answer.status_code, answer.headers["content-type"])
    assert said == (status, "application/problem+json"), answer.text[:500]
    body = answer.json()
    assert (body["status"], body["err_code"], body["type"]) == (status, err_code, f"urn:silt:error:{err_code}")
    assert body["title"]
    assert body["detail"]


def test_streams_are_listed_page_by_page(tmp_path: Path) -> None:
    """Pages follow each other by cursor, ordered by name, and each stream shows its state."""
    tables = Tables(tmp_path)
    for name in ("B", "A", "C"):
        history = History(stream=name)
        tables.commit([history.create(), history.publish("s.1", b"xyz")])

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        first = (await client.get("/v1/streams", params={"limit": 2})).json()
        assert [one["name"] for one in first["streams"]] == ["A", "B"]
        second = (await client.get("/v1/streams", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert ([one["name"] for one in second["streams"]], second["next_cursor"]) == (["C"], None)
        state = first["streams"][0]["state"]
        assert (state["messages"], state["first_seq"], state["last_seq"], state["bytes"]) == (1, 1, 1, 36)
        assert first["streams"][0]["config"]["subjects"] == ["s.>"]

    over(tmp_path, use)


def test_a_stream_shows_its_subjects_when_asked(tmp_path: Path) -> None:
    """Counts by subject come for a filter; a filter that is none is refused."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        plain = (await client.get("/v1/streams/S")).json()
        assert (plain["state"]["num_deleted"], plain["subjects"]) == (0, None)
        assert plain["state"]["first_seq"] == 3
        counted = (await client.get("/v1/streams/S", params={"subjects": "s.*"})).json()
        assert counted["subjects"] == {"s.1": 1, "s.2": 1, "s.3": 1, "s.4/x_y": 1}
        check_problem(await client.get("/v1/streams/S", params={"subjects": "a..b"}), 400, 10003)
        check_problem(await client.get("/v1/streams/NONE"), 404, 10059)

    over(tmp_path, use)


def test_a_message_as_json_and_as_bare_payload(tmp_path: Path) -> None:
    """JSON holds base64, text when it is UTF-8 and all header values; octet-stream gives the payload alone."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        text = (await client.get("/v1/streams/S/messages/5")).json()
        assert (text["text"], base64.b64decode(text["data"]).decode(), text["subject"]) == ("grün", "grün", "s.2")
        binary = (await client.get("/v1/streams/S/messages/4")).json()
        assert "text" not in binary
        assert base64.b64decode(binary["data"]) == b"\xff\xfe"
        bare = await client.get("/v1/streams/S/messages/4", headers={"Accept": "application/octet-stream"})
        assert (bare.content, bare.headers["nats-sequence"], bare.headers["nats-subject"]) == (b"\xff\xfe", "4", "s.1")
        assert bare.headers["content-type"] == "application/octet-stream"
        check_problem(await client.get("/v1/streams/S/messages/5", headers={"Accept": "image/png"}), 406, 20000)
        for gone in (1, 99, 0):
            check_problem(await client.get(f"/v1/streams/S/messages/{gone}"), 404, 10037)
        check_problem(await client.get("/v1/streams/S/messages/x"), 400, 10003)
        check_problem(await client.get("/v1/streams/S/messages/-1"), 400, 10003)

    over(tmp_path, use)


def test_headers_keep_all_their_values(tmp_path: Path) -> None:
    """A repeated header field has its values in order."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1", b"x", headers=HEADERS)])

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        body = (await client.get("/v1/streams/S/messages/1")).json()
        assert body["headers"] == {"A": ["one", "two"], "B": ["x"]}

    over(tmp_path, use)


def test_the_last_message_of_a_subject(tmp_path: Path) -> None:
    """Subjects may hold slashes and wildcards."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        assert (await client.get("/v1/streams/S/last/s.1")).json()["seq"] == 4
        assert (await client.get("/v1/streams/S/last/s.4/x_y")).json()["seq"] == 6
        assert (await client.get("/v1/streams/S/last/s.*")).json()["seq"] == 6
        check_problem(await client.get("/v1/streams/S/last/none"), 404, 10037)
        check_problem(await client.get("/v1/streams/S/last/a..b"), 400, 10003)

    over(tmp_path, use)


def test_a_range_is_lines_and_names_its_next_page(tmp_path: Path) -> None:
    """NDJSON from a sequence or time on, filtered, with a Link to what follows."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number % 3}") for number in range(700))])
    tables.settle()

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        async def page(url: str, **params: Any) -> tuple[list[int], httpx.Response]:
            answer = await client.get(url, params=params or None)
            assert answer.headers["content-type"].startswith("application/x-ndjson")
            return [json.loads(line)["seq"] for line in answer.text.splitlines()], answer

        every, answer = await page("/v1/streams/S/messages", limit=700)
        assert every == list(range(1, 701))
        assert "link" not in answer.headers
        seqs, answer = await page("/v1/streams/S/messages", subject="s.1", from_seq=5, limit=2)
        assert seqs == [5, 8]
        seqs, _ = await page(answer.links["next"]["url"])
        assert seqs == [11, 14]
        at = format_time(history.rows[700].ts_ns)
        assert (await page("/v1/streams/S/messages", from_time=at))[0] == [700]
        assert (await page("/v1/streams/S/messages", from_seq=900))[0] == []
        check_problem(await client.get("/v1/streams/S/messages", params={"limit": 10_000_000}), 400, 10003)
        check_problem(await client.get("/v1/streams/S/messages", params={"from_time": "noon"}), 400, 10003)
        both = {"from_time": at, "from_seq": 1}
        check_problem(await client.get("/v1/streams/S/messages", params=both), 400, 10003)

    over(tmp_path, use)


def test_multi_last_gives_the_true_past(tmp_path: Path) -> None:
    """At a past sequence or time the values that the limit has removed since are back."""
    _, history = stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        async def seqs(**params: Any) -> tuple[int, list[int]]:
            body = (await client.get("/v1/streams/S/multi-last", params={"subject": "s.*", **params})).json()
            return body["up_to_seq"], [message["seq"] for message in body["messages"]]

        assert await seqs() == (6, [3, 4, 5, 6])
        assert await seqs(up_to_seq=3) == (3, [1, 2, 3])
        assert await seqs(up_to_seq=4) == (4, [2, 3, 4])
        assert await seqs(up_to_seq=600) == (6, [3, 4, 5, 6])
        assert await seqs(up_to_seq=0) == (0, [])
        times = {row.seq: row.ts_ns for row in history.rows if row.kind == Kind.MESSAGE}
        assert await seqs(up_to_time=format_time(times[4])) == (3, [1, 2, 3])
        assert await seqs(up_to_time=format_time(times[4] + 1)) == (4, [2, 3, 4])
        assert await seqs(up_to_time=format_time(times[1])) == (0, [])
        assert await seqs(up_to_time=format_time(times[6] + 1)) == (6, [3, 4, 5, 6])
        two = await client.get("/v1/streams/S/multi-last?subject=s.1&subject=s.3&up_to_seq=3")
        assert [message["seq"] for message in two.json()["messages"]] == [1, 3]
        for bad in (
            "",
            "?subject=a..b",
            "?subject=a&up_to_seq=1&up_to_time=2026-01-01T00:00:00Z",
            "?subject=a&up_to_seq=x",
        ):
            check_problem(await client.get(f"/v1/streams/S/multi-last{bad}"), 400, 10003)

    over(tmp_path, use)


def test_multi_last_comes_in_pages_of_one_point(tmp_path: Path) -> None:
    """Past and present alike: each page names the next one, which shows the same point; past the horizon is 410."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number}") for number in range(1025))])
    tables.settle(tables.rows[:700])
    tables.settle()
    tables.commit([history.remove([1, 2], "age", erase=False)])

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        url = "/v1/streams/S/multi-last?subject=s.*"
        assert len((await client.get(url)).json()["messages"]) == 1023
        for point in (
            "&up_to_seq=1025",
            "&up_to_seq=900",
            f"&up_to_time={format_time(history.rows[-1].ts_ns + 1)}",
            "",
        ):
            whole, seqs = f"{url}{point}&limit=400", []
            while True:
                page = await client.get(whole)
                seqs += [message["seq"] for message in page.json()["messages"]]
                if "next" not in page.links:
                    assert page.json()["next_cursor"] is None
                    break
                whole = page.links["next"]["url"]
                assert page.json()["next_cursor"] == seqs[-1]
            assert seqs == list(range(1 if "seq" in point else 3, 901 if "900" in point else 1026)), point
        (tmp_path / "messages/_delta_log" / f"{0:020d}.json").rename(tmp_path / "hidden")
        check_problem(await client.get(f"{url}&up_to_seq=600"), 410, 20001)

    over(tmp_path, use)


def test_damage_is_a_problem_and_never_a_payload(tmp_path: Path) -> None:
    """A payload whose checksum fails is 500 with a name, not data."""
    history, tables = History(), Tables(tmp_path)
    rows = [history.create(), history.publish("s.1", b"payload")]
    tables.commit(rows)
    tables.settle([rows[0], rows[1]._replace(crc=rows[1].crc ^ 1)])
    tables.truncate()

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        check_problem(await client.get("/v1/streams/S/messages/1"), 500, 20003)
        check_problem(await client.get("/v1/streams/S/messages"), 500, 20003)

    over(tmp_path, use)


def test_a_live_message_in_no_file_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As over NATS: it must not look like a message that is not there."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        replica.payloads.tail.clear()
        monkeypatch.setattr(replica.payloads, "fetch", lambda *_plan: {})
        for path in ("messages/5", "last/s.2", "messages", "multi-last?subject=s.2"):
            check_problem(await client.get(f"/v1/streams/S/{path}"), 500, 20003)

    over(tmp_path, use)


def test_an_unchanged_answer_is_not_sent_again(tmp_path: Path) -> None:
    """Tags follow the Delta version; a message's tag outlives commits."""
    tables, history = stored(tmp_path)

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        urls = ["/v1/streams", "/v1/streams/S", "/v1/streams/S/multi-last?subject=s.1", "/v1/streams/S/messages/4"]
        urls += ["/v1/streams/S/messages?subject=s.1", "/v1/streams/S/messages"]
        tags = [(await client.get(url)).headers["etag"] for url in urls]
        for url, tag in zip(urls, tags, strict=True):
            same = await client.get(url, headers={"If-None-Match": f'"x", {tag}'})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        tables.commit([history.publish("s.9")])
        await replica.refresh()
        codes = [
            (await client.get(url, headers={"If-None-Match": tag})).status_code
            for url, tag in zip(urls, tags, strict=True)
        ]
        assert codes == [200, 200, 200, 304, 304, 200]

    over(tmp_path, use)


def test_what_a_route_does_not_know_or_serve_is_refused(tmp_path: Path) -> None:
    """A parameter that would be left out and a media type that nobody makes are errors, on every route."""
    stored(tmp_path)
    last, one, multi = "/v1/streams/S/last/s.1", "/v1/streams/S/messages/4", "/v1/streams/S/multi-last?subject=s.1"
    urls = ["/healthz", "/v1/streams", "/v1/streams/S", "/v1/streams/S/messages", last, one, multi]

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        for url in urls:
            joint = "&" if "?" in url else "?"
            check_problem(await client.get(f"{url}{joint}until_time=2026-01-01T00:00:00Z"), 400, 10003)
            for accept in ("image/png", "application/xml, */*;q=0"):
                check_problem(await client.get(url, headers={"Accept": accept}), 406, 20000)
            assert (await client.get(url, headers={"Accept": "image/png, */*;q=0.1"})).status_code == 200
        check_problem(await client.get("/v1/streams?limit=1&limit=2"), 400, 10003)
        check_problem(await client.get("/v1/streams/S/messages", headers={"Accept": "application/json"}), 406, 20000)
        preferred = {"Accept": "application/json;q=0.5, application/octet-stream"}
        assert (await client.get(one, headers=preferred)).headers["content-type"] == "application/octet-stream"

    over(tmp_path, use)


def test_a_large_answer_is_compressed_when_the_client_takes_that(tmp_path: Path) -> None:
    """The same content in fewer bytes, whole and streamed."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number}", b"x" * 100) for number in range(200))])

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        for url in ("/v1/streams/S/messages", "/v1/streams/S/multi-last?subject=s.*"):
            plain = await client.get(url, headers={"Accept-Encoding": "identity"})
            small = await client.get(url, headers={"Accept-Encoding": "gzip"})
            assert (plain.headers.get("content-encoding"), small.headers["content-encoding"]) == (None, "gzip")
            assert (plain.content, plain.headers["etag"]) == (small.content, small.headers["etag"])
            assert small.num_bytes_downloaded < len(plain.content) / 5

    over(tmp_path, use)


def test_what_was_just_committed_is_found(tmp_path: Path) -> None:
    """A stream or sequence that is not known yet makes the API look at the tables before it says no."""
    tables, history = stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        tables.commit([history.publish("s.9", b"new")])
        assert (await client.get("/v1/streams/S/messages/7")).json()["text"] == "new"
        other = History(stream="LATE")
        tables.commit([other.create()])
        assert (await client.get("/v1/streams/LATE")).status_code == 200

    over(tmp_path, use)


def test_a_stream_update_and_delete_are_followed(tmp_path: Path) -> None:
    """The replica applies events: a new configuration shows, a deleted stream is gone."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1")])

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        history.event_no += 1
        changed = StreamConfig(name="S", subjects=("s.>",), description="changed")
        tables.commit([history._event(Kind.STREAM, stream_data(changed, history.stream_id))])
        await replica.refresh()
        assert (await client.get("/v1/streams/S")).json()["config"]["description"] == "changed"
        history.event_no += 1
        tables.commit([history._event(Kind.STREAM_DELETE, b"")])
        await replica.refresh()
        check_problem(await client.get("/v1/streams/S"), 404, 10059)

    over(tmp_path, use)


def test_health_and_description(tmp_path: Path) -> None:
    """Health names the versions shown; OpenAPI describes each route with its problems."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        health = (await client.get("/healthz")).json()
        assert (health["status"], health["journal_version"]) == ("ok", replica.journal_version)
        replica.refreshed_at -= 1000
        assert (await client.get("/healthz")).status_code == 503
        described = (await client.get("/openapi.json")).json()
        assert len(described["paths"]) == 31
        for path in described["paths"].values():
            assert all("400" in operation["responses"] for operation in path.values())
        assert "Problem" in described["components"]["schemas"]
        check_problem(await client.get("/nowhere"), 404, 20000)
        check_problem(await client.post("/v1/streams"), 405, 20000)

    over(tmp_path, use)


@pytest.mark.parametrize("settled", [False, True])
def test_a_lagging_replica_catches_up_or_rebuilds(tmp_path: Path, settled: bool) -> None:
    """Journal files that are truncated before the replica read them make it rebuild, with the same result."""
    tables, history = stored(tmp_path)

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        for _ in range(3):
            tables.commit([history.publish("s.7")])
        if settled:
            tables.settle()
            tables.apply_limits()
            tables.truncate()
        await replica.refresh()
        state = (await client.get("/v1/streams/S")).json()["state"]
        assert (state["last_seq"], state["messages"]) == (9, 5)
        assert (await client.get("/v1/streams/S/last/s.7")).json()["text"] == "S/9"

    over(tmp_path, use)


def test_until_the_store_is_open_all_is_answered_and_nothing_shown(tmp_path: Path) -> None:
    """503 and Retry-After for streams; the process says that it is alive, not ready; and then that it is."""
    stored(tmp_path)

    async def run() -> None:
        threads = ReadThreads(2, timeout_seconds=20)
        replica = Replica(str(tmp_path), threads, clock=SystemClock())
        transport = httpx.ASGITransport(create_app(replica, Settings()))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path in ("/v1/streams", "/v1/streams/S/messages", "/readyz"):
                answer = await client.get(path)
                check_problem(answer, 503, 20008)
                assert answer.headers["retry-after"] == "1"
            health = await client.get("/healthz")
            assert (health.status_code, health.json()["status"]) == (200, "opening")
            assert "silt_opened 0.0" in (await client.get("/metrics")).text
            await replica.open()
            assert (await client.get("/v1/streams")).status_code == 200
            ready = (await client.get("/readyz")).json()
            assert (ready["status"], ready["settle_state"]) == ("ready", "not running")
        threads.close()

    asyncio.run(run())


def test_metrics_tell_of_every_stream(tmp_path: Path) -> None:
    """What is committed and what is settled, by stream, in the format of Prometheus."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, replica: Replica) -> None:
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        samples = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
        assert float(samples['silt_stream_last_sequence{stream="S"}']) == 6
        assert float(samples['silt_stream_settled_sequence{stream="S"}']) == replica.watermarks["S"].seq == 5
        assert float(samples['silt_stream_messages{stream="S"}']) == replica.catalog.streams["S"].index.msgs
        assert float(samples['silt_settle_state{state="not running"}']) == 1
        assert float(samples["silt_opened"]) == 1

    over(tmp_path, use)
