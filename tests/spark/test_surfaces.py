"""One store, many ways to read it: at each point all show the same messages, settled or not."""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from delta_store.values.records import Kind, Row
from tests.servers import Child, gateway, http_open, nats_server, wait_until
from tests.spark import surfaces
from tests.spark.store import SECOND, Store
from tests.spark.surfaces import Answers, Asked, Message, last_of_each, message_of
from tests.tables import live_before, live_sequences
from tests.wire import header_block

MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)
BUCKET = "KV_box"
STREAMS: dict[str, dict[str, object]] = {
    "PLAIN": {},
    "AGED": {"max_age": HOUR},
    "LIMITED": {"max_msgs": 9, "max_msgs_per_subject": 2},
    "TTL": {"allow_msg_ttl": True},
    "CUT": {},
    "ROLLED": {"allow_rollup_hdrs": True},
    "ANEW": {},
    BUCKET: {"subjects": ("$KV.box.>",), "max_msgs_per_subject": 2, "allow_rollup_hdrs": True},
}
HEADERS = [None, [("A", "1"), ("a", "grün"), ("A", "2")], [("Nats-Expected-Stream", "x"), ("Empty", "")]]
PAYLOADS = [b"", b'{"n": 1}', b"\xff\xfe\x00", "grün".encode()]
EARLY, ANEW, PAUSE, LATE, ROUNDS = 6, 7, 12, 19, 24
SETTLED = (8, 16)


class Filled:
    """Decisions on all streams, a minute apart, with two hours between the halves; settled in part."""

    def __init__(self, here: Store) -> None:
        self.here, self.rows, self.dice = here, list[Row](), random.Random(7)
        self.points: dict[int, list[Asked]] = {EARLY: [], LATE: []}
        """Points of each stream, by the round at which they were: all is settled of the first."""
        here.now_ns = time.time_ns() // SECOND * SECOND - 3 * HOUR
        for name, config in STREAMS.items():
            here.create(name, allow_direct=True, **config)
        for number in range(ROUNDS):
            here.tick(2 * HOUR if number == PAUSE else MINUTE)
            if number in self.points:
                self.points[number] = list(self.points_now(number))
            here.catalog.expire(now_ns=here.now_ns, rows=here.rows)
            self.publish()
            self.change(number)
            if number in SETTLED:
                self.rows += here.rows.rows()
                here.settle()
        self.rows += here.rows.rows()
        here.maintenance.run_due()
        here.truncate()
        here.commit()

    def points_now(self, number: int) -> Iterator[Asked]:
        """The state of each stream, by sequence and by time."""
        for name, state in self.here.catalog.streams.items():
            if name != "ANEW" or number > ANEW:
                yield Asked(name, seq=state.index.last_seq)
                yield Asked(name, time_us=self.here.now_ns // 1000)

    def publish(self) -> None:
        """A message to each stream."""
        for name in STREAMS:
            fields = self.dice.choice(HEADERS)
            if name == "TTL" and self.dice.random() < 0.5:
                fields = [("Nats-TTL", "1h")]
            token = self.dice.choice("abc") if name != BUCKET else f"$KV.box.{self.dice.choice('abc')}"
            headers = None if fields is None else header_block(fields)
            self.here.publish(name, token, self.dice.choice(PAYLOADS), headers=headers)

    def change(self, number: int) -> None:
        """What removes messages, or makes a stream anew."""
        here, now = self.here, {"now_ns": self.here.now_ns, "rows": self.here.rows}
        delete, purge = header_block([("KV-Operation", "DEL")]), header_block([("KV-Operation", "PURGE")])
        match number:
            case 5 | 18:
                here.catalog.remove("CUT", here.live("CUT")[1], **now)
            case 9:
                here.catalog.remove("CUT", here.live("CUT")[-2], erase=False, **now)
            case 10 | 20:
                here.catalog.purge("CUT", subject="CUT.b", keep=1 if number == 20 else 0, **now)
            case 11 | 17 | 21:
                here.roll_up("ROLLED", "a", b"rolled", whole=number == 17)
            case 13 | 22:
                here.publish(BUCKET, "$KV.box.a", b"", headers=delete)
            case 15:
                here.roll_up(BUCKET, "$KV.box.b", b"", headers=purge)
            case 23:
                here.catalog.update(here.config("LIMITED", allow_direct=True, max_msgs=4), **now)
            case _ if number == ANEW:
                here.catalog.delete("ANEW", **now)
                here.create("ANEW", allow_direct=True)

    def truth(self, asked: Asked) -> list[Message]:
        """The messages at a point, by a replay of the rows."""
        stream_id = self.here.catalog.streams[asked.stream].stream_id
        rows = [row for row in self.rows if row.stream == asked.stream and row.stream_id == stream_id]
        if asked.time_us is not None:
            live = live_before(rows, asked.time_us * 1000)
        else:
            live = set(self.here.live(asked.stream)) if asked.seq is None else live_sequences(rows, asked.seq)
        found = [
            message_of(row.subject, row.seq, row.ts_ns, row.data, row.headers)
            for row in rows
            if row.kind == Kind.MESSAGE and row.seq in live
        ]
        return last_of_each(found) if asked.last else found


class Servers(NamedTuple):
    """The addresses of a gateway's hub and of an HTTP server on one store."""

    nats: str
    http: str


@contextmanager
def serving(data: Path) -> Iterator[Servers]:
    """Run both until the block ends."""
    command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(data), "--http-port", "0", "--http-only"]
    http = Child(command, data.parent / "serve.log")
    with nats_server(data.parent / "hub", leaf=True) as hub, gateway(hub, data):
        http.start()
        try:
            url = json.loads(http.wait_log(READY, seconds=60)[1])["url"]
            wait_until(lambda: http_open(url) or None, what="the store is open", log=http.log)
            yield Servers(hub.url, url)
        finally:
            http.stop()


def differences(surface: str, answers: Answers, filled: Filled) -> Iterator[str]:
    """Say where a surface shows something else than the truth."""
    for asked, found in answers.items():
        truth = {one.seq: one for one in filled.truth(asked)}
        shown = {one.seq: one for one in found}
        if len(found) != len(shown) or shown != truth:
            wrong = [(shown[seq], truth[seq]) for seq in shown.keys() & truth.keys() if shown[seq] != truth[seq]]
            lacks, extra = sorted(truth.keys() - shown.keys()), sorted(shown.keys() - truth.keys())
            yield f"{surface} at {asked}: lacks {lacks}, has {extra} beside, {len(found)} rows, other {wrong}"


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_all_surfaces_show_the_same(store: Callable[..., Store], tmp_path: Path) -> None:
    """Now, after sequences and before times: with a third in the journal, then with all settled and cleaned up."""
    filled = Filled(store())
    here, data = filled.here, filled.here.data
    now, early, late = [Asked(name) for name in STREAMS], filled.points[EARLY], filled.points[LATE]
    whole = [*now, *early, *late]
    last = [one._replace(last=True) for one in whole]
    some = [one for one in whole if one.seq is None or one.stream in ("CUT", BUCKET)]
    # The raw tables do not know yet that a message was erased by what is still in the journal.
    known = [one for one in early if one.stream != "CUT"]
    with serving(data) as servers:
        found = {
            "NATS": surfaces.by_nats(servers.nats, [*now, *last]),
            "REST": surfaces.by_rest(servers.http, [*now, *last]),
            "DuckDB": surfaces.by_duckdb(data, [*whole, *last]),
            "Spark views": surfaces.by_spark_views(here.spark, data, some),
            "Spark source": surfaces.by_spark_source(here.spark, data, some),
            "Delta Sharing": surfaces.by_sharing(servers.http, tmp_path, whole),
            **surfaces.by_plain_views(data, known),
        }
        here.settle(fresh=True)
        here.maintenance.run_due()
        found |= {
            "NATS, settled": surfaces.by_nats(servers.nats, [*now, *last]),
            "REST, settled": surfaces.by_rest(servers.http, [*now, *last]),
            "DuckDB, settled": surfaces.by_duckdb(data, whole),
            **surfaces.by_plain_views(data, whole, kind="settled"),
            **surfaces.by_plain_views(data, [*now, *early[-2:]], spark=here.spark),
        }
    assert [said for name, answers in found.items() for said in differences(name, answers, filled)] == []
