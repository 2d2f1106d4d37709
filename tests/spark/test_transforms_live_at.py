"""The DataFrame rule of liveness and the in-memory one are the same rule."""

import json
import random
from collections import defaultdict
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row
from delta_store.transforms.live_rows import END, dead_at, live_at
from delta_store.transforms.stream_heads import ended_incarnations
from delta_store.values.records import Kind, Row
from delta_store.values.schemas import JOURNAL_DDL
from tests.spark.store import SECOND, Publisher

BOUNDS = "stream STRING, stream_id BIGINT, up_to_seq BIGINT, oldest_ts_ns BIGINT"
STREAMS = 24
STEPS = 60


class Question(NamedTuple):
    """Which messages of a history are live at a point, and the in-memory answer."""

    name: str
    stream_id: int
    up_to_seq: int
    oldest_ts_ns: int | None
    live: set[int]


def random_history(rng: random.Random, name: str) -> Publisher:
    """A stream's life: publishes, rollups, limits, their changes, deletes, purges, messages growing too old."""
    publisher = Publisher()
    features = random_features(rng)
    publisher.create(name, **random_limits(rng), **features)
    for _ in range(STEPS):
        match rng.choices(["publish", "roll up", "delete", "purge", "limits", "expire"], [40, 5, 4, 2, 2, 3])[0]:
            case "publish":
                publisher.tick(rng.randrange(SECOND))
                publisher.publish(name, f"k{rng.randrange(6)}", rng.randbytes(rng.randrange(40)))
            case "roll up":
                publisher.roll_up(name, f"k{rng.randrange(6)}", b"0123456789", whole=rng.random() < 0.2)
            case "delete":
                if live := publisher.live(name):
                    erase = rng.random() < 0.7
                    publisher.catalog.remove(
                        name, rng.choice(live), now_ns=publisher.tick(), rows=publisher.rows, erase=erase
                    )
            case "purge":
                how = rng.choice(
                    [{}, {"subject": f"{name}.k{rng.randrange(6)}"}, {"seq": rng.randrange(STEPS)}, {"keep": 3}]
                )
                publisher.catalog.purge(name, now_ns=publisher.tick(), rows=publisher.rows, **how)
            case "limits":
                config = publisher.config(name, **random_limits(rng), **features)
                publisher.catalog.update(config, now_ns=publisher.tick(), rows=publisher.rows)
            case "expire":
                publisher.tick(10 * SECOND)
                publisher.catalog.expire(now_ns=publisher.tick(), rows=publisher.rows)
    return publisher


def random_features(rng: random.Random) -> dict[str, Any]:
    """None, or TTLs, with markers or without, in a stream that does not begin with 1."""
    if rng.random() < 0.4:
        return {}
    ttl = rng.choice([0, 40 * SECOND])
    return {"first_seq": 900, "allow_msg_ttl": True, "allow_rollup_hdrs": True, "subject_delete_marker_ttl": ttl}


def random_limits(rng: random.Random) -> dict[str, int]:
    """Some limits, low enough to bite."""
    chosen = {
        "max_msgs": rng.randrange(5, 30),
        "max_bytes": rng.randrange(300, 3000),
        "max_msgs_per_subject": rng.randrange(1, 4),
        "max_age": rng.randrange(10, 60) * SECOND,
    }
    return {field: value for field, value in chosen.items() if rng.random() < 0.45}


def replayed(rows: list[Row], up_to: int) -> set[int]:
    """What a replay shows right after message ``up_to``, less what any later removal erased."""
    catalog, erased, live = Catalog(), set(), None
    for row in rows:
        replay_row(catalog, row)
        if row.kind == Kind.MESSAGE and row.seq == up_to:
            index = catalog.streams[row.stream].index
            live = set(index.live.sequences(index.first_seq, index.last_seq).tolist())
        if row.kind == Kind.REMOVE and json.loads(row.data)["erase"]:
            erased |= {seq for low, high in json.loads(row.data)["ranges"] for seq in range(low, high + 1)}
    return (live or set()) - erased


def questions(rng: random.Random, publisher: Publisher, name: str) -> list[Question]:
    """Some points of one history, now among them."""
    state = publisher.catalog.streams[name]
    rows = list(publisher.rows.rows())
    points = [rng.choice([row.seq for row in rows if row.kind == Kind.MESSAGE]) for _ in range(3)]
    asked = [
        Question(f"{name}@{n}", state.stream_id, up_to, None, replayed(rows, up_to)) for n, up_to in enumerate(points)
    ]
    times = dict(zip(publisher.rows.seq, publisher.rows.ts_ns, strict=True)) | {
        row.seq: row.ts_ns for row in rows if row.kind == Kind.MESSAGE
    }
    live = set(publisher.live(name))
    oldest = publisher.now_ns - rng.randrange(1, 40) * SECOND
    asked.append(Question(f"{name}@now", state.stream_id, END, None, live))
    asked.append(Question(f"{name}@aged", state.stream_id, END, oldest, {seq for seq in live if times[seq] > oldest}))
    return asked


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_live_at_is_the_in_memory_rule(spark: SparkSession, seed: int) -> None:
    """Random histories, decided by the catalog: at random sequences and now, both rules show the same messages."""
    rng = random.Random(seed)
    asked: list[Question] = []
    rows: list[tuple[object, ...]] = []
    for number in range(STREAMS):
        name = f"h{number}"
        publisher = random_history(rng, name)
        for question in questions(rng, publisher, name):
            asked.append(question)
            rows += [tuple(row._replace(stream=question.name)) for row in publisher.rows.rows()]
    rng.shuffle(rows)
    frame = spark.createDataFrame(rows, JOURNAL_DDL).cache()
    bounds = spark.createDataFrame([question[:4] for question in asked], BOUNDS)
    found: dict[str, set[int]] = defaultdict(set)
    for stream, seq in frame.transform(live_at(bounds)).select("stream", "seq").collect():
        found[stream].add(seq)
    assert {question.name: question.live for question in asked} == {q.name: found[q.name] for q in asked}
    newest = [question for question in asked if question.name.endswith("@now")]
    bounds = spark.createDataFrame([question[:4] for question in newest], BOUNDS)
    dead: dict[str, set[int]] = defaultdict(set)
    for stream, seq in frame.transform(dead_at(bounds, ended_incarnations(frame))).select("stream", "seq").collect():
        dead[stream].add(seq)
    for question in newest:
        messages = {row[2] for row in rows if row[0] == question.name and row[4] == Kind.MESSAGE}
        assert dead[question.name] == messages - question.live
    frame.unpersist()
