"""The past over HTTP: streams and messages as of a point."""

from pathlib import Path

import httpx

from delta_store.dialect.times import format_time
from delta_store.stores.replica import Replica
from tests.unit.api.test_rest import check_problem, over, stored


def test_a_stream_as_of_a_point(tmp_path: Path) -> None:
    """State and counts are those of then; the tag is of now alone."""
    _, history = stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        then = await client.get("/v1/streams/S", params={"as_of": 3, "subjects": "s.>"})
        state = then.json()["state"]
        assert (state["messages"], state["first_seq"], state["last_seq"]) == (3, 1, 3)
        assert then.json()["subjects"] == {"s.1": 1, "s.2": 1, "s.3": 1}
        assert "etag" not in then.headers
        for point in (format_time(history.now_ns // 1_000 * 1_000 + 1_000), "1s"):
            timed = (await client.get("/v1/streams/S", params={"as_of": point})).json()["state"]
            assert (timed["messages"], timed["last_seq"]) == (4, history.seq)

    over(tmp_path, use)


def test_messages_as_of_a_point(tmp_path: Path) -> None:
    """A message that a limit has removed since, and the last of a subject then."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        assert (await client.get("/v1/streams/S/messages/1")).status_code == 404
        then = await client.get("/v1/streams/S/messages/1", params={"as_of": "3"})
        assert (then.json()["seq"], then.json()["text"]) == (1, "S/1")
        check_problem(await client.get("/v1/streams/S/messages/1", params={"as_of": "4"}), 404, 10037)
        check_problem(await client.get("/v1/streams/S/messages/5", params={"as_of": "4"}), 404, 10037)
        last = [
            (await client.get("/v1/streams/S/last/s.1", params=params)).json()["seq"] for params in ({"as_of": 3}, {})
        ]
        assert last == [1, 4]
        bare = await client.get(
            "/v1/streams/S/last/s.*", params={"as_of": 2}, headers={"Accept": "application/octet-stream"}
        )
        assert (bare.content, bare.headers["nats-sequence"]) == (b"S/2", "2")

    over(tmp_path, use)


def test_changes_and_versions(tmp_path: Path) -> None:
    """The difference of two points by subject, and which version settled which sequences."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        found = (await client.get("/v1/streams/S/diff", params={"a": 3})).json()
        assert [tuple(one.values()) for one in found["changes"]] == [
            ("s.1", "changed", 1, 4),
            ("s.2", "changed", 2, 5),
            ("s.4/x_y", "added", 0, 6),
        ]
        back = (await client.get("/v1/streams/S/diff", params={"a": 6, "b": "3", "subject": "s.4/x_y"})).json()
        assert [(one["change"], one["seq_before"]) for one in back["changes"]] == [("removed", 6)]
        since = (await client.get("/v1/streams/S/diff", params={"a": "2001-01-01", "b": 2, "offset": 1})).json()
        assert (since["total"], len(since["changes"])) == (2, 1)
        versions = (await client.get("/v1/streams/S/versions")).json()["versions"]
        assert [(one["first_seq"], one["last_seq"]) for one in versions] == [(4, 5), (1, 3)]
        for point, version in ((2, versions[1:]), (5, versions[:1]), (6, [])):
            at = (await client.get("/v1/streams/S/versions", params={"as_of": point})).json()["versions"]
            assert at == version
        older = await client.get("/v1/streams/S/versions", params={"before": versions[0]["version"]})
        assert older.json()["versions"] == versions[1:]
        check_problem(await client.get("/v1/streams/S/diff", params={"a": "soon"}), 400, 10003)

    over(tmp_path, use)


def test_how_far_back_a_stream_can_be_read(tmp_path: Path) -> None:
    """By the setting, as this one says nothing, with what is there for its past alone."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        told = (await client.get("/v1/streams/S/history")).json()
        assert (told["stream"], told["history"], told["own"]) == ("S", 7 * 86_400 * 10**9, False)
        assert (told["oldest_seq"], told["held_files"] > 0) == (1, True)
        check_problem(await client.get("/v1/streams/NONE/history"), 404, 10059)

    over(tmp_path, use)


def test_what_is_no_point(tmp_path: Path) -> None:
    """Nonsense is a bad request, a time before the stream no stream."""
    stored(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        for path in ("/v1/streams/S", "/v1/streams/S/messages/1", "/v1/streams/S/last/s.1"):
            check_problem(await client.get(path, params={"as_of": "soon"}), 400, 10003)
            check_problem(await client.get(path, params={"as_of": "2001-01-01"}), 404, 10059)
        check_problem(await client.get("/v1/streams/NONE", params={"as_of": "1"}), 404, 10059)

    over(tmp_path, use)
