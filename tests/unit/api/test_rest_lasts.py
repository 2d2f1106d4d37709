"""The last messages of several streams over HTTP, at one instant."""

from pathlib import Path

import httpx

from delta_store.stores.replica import Replica
from delta_store.values.cut_record import CUTS, cut_data
from delta_store.values.records import Position
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem, over

URL = "/v1/multi-last"


def two_streams(folder: Path) -> None:
    """Two streams, of one message for each of two subjects; the cut c stands before the second ones."""
    tables, streams, points = Tables(folder), [History("A", per_subject=1), History("B", per_subject=1)], History(CUTS)
    for one in streams:
        tables.commit([one.create(), one.publish("s.1"), one.publish("s.2")])
    places = {one.stream: Position(one.stream_id, one.seq, one.event_no) for one in streams}
    tables.commit([points.create(subjects=()), points.publish("c", cut_data(places))])
    tables.settle()
    for one in streams:
        tables.commit([one.publish("s.1"), one.publish("s.2")])
    tables.settle()
    tables.apply_limits()


def seen(answer: httpx.Response) -> list[tuple[str, int]]:
    """Stream and sequence of each message."""
    assert answer.status_code == 200, answer.text
    return [(one["stream"], one["seq"]) for one in answer.json()["messages"]]


def test_streams_are_read_at_one_instant(tmp_path: Path) -> None:
    """Now and at a cut, whole or page by page, all subjects or some."""
    two_streams(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        both = {"stream": ["B", "A", "A"]}
        now = await client.get(URL, params=both)
        assert (seen(now), now.json()["next"]) == ([("A", 3), ("A", 4), ("B", 3), ("B", 4)], None)
        assert seen(await client.get(URL, params=both | {"subject": ["s.2", "t"]})) == [("A", 4), ("B", 4)]
        page = await client.get(URL, params=both | {"as_of": "cut:c", "limit": "3"})
        assert seen(page) == [("A", 1), ("A", 2), ("B", 1)]
        assert page.json()["next"] == {"stream": "B", "seq": 1}
        following = await client.get(page.links["next"]["url"])
        assert (seen(following), following.json()["next"]) == ([("B", 2)], None)

    over(tmp_path, use)


def test_refusals(tmp_path: Path) -> None:
    """Pages of now, streams and cuts that are not there, what is no point or no subject."""
    two_streams(tmp_path)

    async def use(client: httpx.AsyncClient, _replica: Replica) -> None:
        check_problem(await client.get(URL, params={"stream": ["A", "B"], "limit": 3}), 413, 20002)
        check_problem(await client.get(URL, params={"stream": ["A", "NONE"]}), 404, 10059)
        check_problem(await client.get(URL, params={"stream": "A", "as_of": "cut:none"}), 404, 20102)
        check_problem(await client.get(URL, params={"stream": "A", "as_of": "soon"}), 400, 10003)
        check_problem(await client.get(URL, params={"stream": "A", "subject": "a..b"}), 400, 10003)
        check_problem(await client.get(URL), 400, 10003)

    over(tmp_path, use)
