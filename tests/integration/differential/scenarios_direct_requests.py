"""Scenarios of Direct Get that put one long table of requests to streams of different kinds."""

import json
import random
import re
from typing import Any, NamedTuple

from delta_store.dialect.times import format_time, parse_time
from tests.integration.differential.side import Side, scenario
from tests.wire import Headers

_TIME = re.compile(r"[12]\d{3}-\d\d-\d\dT[\d:.]+Z")


class Stored:
    """A stream under test; what is read from it names the times that the server gave its messages."""

    def __init__(self, side: Side, name: str) -> None:
        self.side = side
        self.name = name
        self.times: dict[int, int] = {}
        """Nanoseconds since 1970 of every message that was stored, by sequence."""
        self.first = 0
        self.last = 0

    @classmethod
    async def create(cls, side: Side, name: str, **options: Any) -> "Stored":
        """An empty one; Silt is told to answer from what is left, as nats-server does."""
        config = {"subjects": [f"{name}.>"], "storage": "file", "allow_direct": True, **options}
        await side.create(name, metadata={"silt.point_in_time": "live"}, **config)
        return cls(side, name)

    async def publish(self, subject: str, data: bytes, headers: Headers = ()) -> None:
        """Store a message."""
        ack = await self.side.publish(f"{self.name}.{subject}", data, headers=headers)
        seq = json.loads(ack.payload)["seq"]
        shown = await self.side.api(f"STREAM.MSG.GET.{self.name}", {"seq": seq})
        self.times[seq] = parse_time(shown["message"]["time"])

    async def ask(self) -> None:
        """Every request of the table."""
        state = (await self.side.info(self.name, label="before the requests"))["state"]
        self.first, self.last = state["first_seq"], state["last_seq"]
        for number, (body, key, headers) in enumerate(_requests(self)):
            label = f"{number} {key} {_TIME.sub('<time>', body.decode('latin-1'))} {headers}"
            subject = f"{self.name}{key}"
            if not key and any(word in body for word in (b"batch", b"multi_last")):
                await self.side.batch(subject, body, label=label)
            else:
                await self.side.get(subject, body, headers=headers, label=label)


@scenario
async def direct_requests_of_events(side: Side) -> None:
    """Many subjects, some headers, holes at both ends and inside."""
    stream = await Stored.create(side, "EV")
    for number in range(1, 41):
        headers = [("Mine", f"v{number}"), ("Other", "x: y")] if number % 3 == 0 else []
        await stream.publish(f"{'abcd'[number % 4]}.{number % 3}", bytes(number), headers)
    await stream.publish("ünïcode", "päyload".encode())
    await stream.publish("last", b"")
    for seq in (1, 2, 10, 11, 12, 20, 42):
        await side.api("STREAM.MSG.DELETE.EV", {"seq": seq})
    await stream.ask()


@scenario
async def direct_requests_of_a_bucket(side: Side) -> None:
    """A per-subject limit of one, written in a fixed random order."""
    stream, order = await Stored.create(side, "KV", max_msgs_per_subject=1), random.Random(7)
    for number in range(60):
        await stream.publish(f"k{order.randrange(9)}", f"value {number}".encode())
    await stream.ask()


@scenario
async def direct_requests_of_memory(side: Side) -> None:
    """The memory store, which answers some bounds in its own way."""
    stream = await Stored.create(side, "MEM", storage="memory")
    for number in range(1, 13):
        await stream.publish(f"m.{number % 3}", f"{number}".encode())
    await side.api("STREAM.MSG.DELETE.MEM", {"seq": 5})
    await stream.ask()


@scenario
async def direct_requests_of_nothing(side: Side) -> None:
    """A stream that never had a message."""
    await (await Stored.create(side, "NEW")).ask()


@scenario
async def direct_requests_of_what_is_purged(side: Side) -> None:
    """A stream whose messages are all gone."""
    stream = await Stored.create(side, "GONE")
    for number in range(5):
        await stream.publish(f"p.{number}", b"x")
    await side.api("STREAM.PURGE.GONE", {})
    await stream.ask()


@scenario
async def direct_requests_of_a_tail(side: Side) -> None:
    """A stream that was purged in front."""
    stream = await Stored.create(side, "TAIL")
    for number in range(12):
        await stream.publish(f"t.{number % 2}", b"y" * number)
    await side.api("STREAM.PURGE.TAIL", {"seq": 6})
    await stream.ask()


@scenario
async def direct_requests_of_too_many_subjects(side: Side) -> None:
    """The limit of 1024 counts resolved subjects, before ``batch`` and ``seq`` cut them down."""
    await Stored.create(side, "MANY")
    for again in (1025, 3):
        await side.publish("MANY.s.0", "v")
        await side.fill("MANY.s.{}", again, pattern="v")
    for body in (
        {"multi_last": ["MANY.>"]},
        {"multi_last": ["MANY.>"], "batch": 1},
        {"multi_last": ["MANY.>"], "seq": 1029},
        {"multi_last": ["MANY.>"], "up_to_seq": 1024, "batch": 2},
        {"multi_last": ["MANY.>"], "up_to_seq": 1025, "batch": 2},
        {"multi_last": [f"MANY.s.{number}" for number in range(1024)], "batch": 3},
    ):
        await side.batch("MANY", body)


class _Request(NamedTuple):
    """One request; ``key`` is the dot and subject of the subject-appended form."""

    body: bytes
    key: str = ""
    headers: Headers = ()


def _requests(stream: Stored) -> list[_Request]:
    """Every form, conflict and bound; sequences and times are the stream's own."""
    name, first, last = stream.name, stream.first, stream.last
    times = [stream.times[seq] for seq in sorted(stream.times)] or [1_700_000_000_000_000_000]
    middle = times[len(times) // 2]
    bodies: list[Any] = [
        *({"seq": seq} for seq in (0, 1, 3, 4, 10, 20, last, last + 1, first, 2**63, 2**64 - 1)),
        *({"seq": seq, "batch": 5} for seq in (1, 9, last - 1, last, last + 1)),
        {"seq": 1, "batch": 1}, {"seq": 1, "batch": 1000}, {"seq": 1, "batch": -1}, {"batch": 10}, {"batch": -1},
        {"last_by_subj": f"{name}.a.1"}, {"last_by_subj": f"{name}.*.2"}, {"last_by_subj": ">"},
        {"last_by_subj": f"{name}.>"}, {"last_by_subj": "nothing"}, {"last_by_subj": f"{name}.k3"},
        {"last_by_subj": f"{name}.ünïcode"}, {"last_by_subj": "a..b"}, {"last_by_subj": f"{name}.a.1", "batch": -1},
        {"next_by_subj": f"{name}.b.>"}, {"next_by_subj": f"{name}.b.>", "seq": 8}, {"next_by_subj": ">", "seq": 10},
        {"next_by_subj": "none"}, {"next_by_subj": f"{name}.c.0", "seq": last}, {"next_by_subj": ">"},
        {"next_by_subj": f"{name}.>", "batch": 7}, {"next_by_subj": f"{name}.*.1", "batch": 3, "seq": 5},
        {"next_by_subj": f"{name}.k1", "batch": 3}, {"next_by_subj": "none", "batch": 3},
        {"next_by_subj": f"{name}.*.*", "batch": 100, "max_bytes": 120}, {"next_by_subj": "", "seq": 3, "batch": 2},
        {"seq": 1, "batch": 100, "max_bytes": 1}, {"seq": 1, "batch": 100, "max_bytes": -1},
        {"seq": 1, "batch": 4, "no_hdr": True}, {"seq": 3, "no_hdr": True}, {"last_by_subj": ">", "no_hdr": True},
        {"seq": 1, "batch": 3, "max_bytes": 40, "no_hdr": True}, {"seq": 3, "max_bytes": 1},
        *({"start_time": format_time(ts)} for ts in (times[0], times[-1], middle, middle + 1, times[-1] + 1, 1)),
        *({"start_time": format_time(ts), "batch": 3} for ts in (times[0], middle, middle + 1, times[-1] + 1, 1)),
        {"start_time": format_time(middle), "next_by_subj": f"{name}.*.2", "batch": 4},
        {"start_time": format_time(middle), "next_by_subj": ">"},
        {"start_time": "2020-01-01T00:00:00+02:00", "batch": 2}, {"start_time": "yesterday"},
        {"multi_last": [">"]}, {"multi_last": [f"{name}.a.*", f"{name}.*.1"]}, {"multi_last": ["none"]},
        {"multi_last": [f"{name}.a.1", f"{name}.a.1", f"{name}.b.2"]}, {"multi_last": []}, {"multi_last": [""]},
        {"multi_last": [">"], "batch": 2}, {"multi_last": [">"], "batch": -3}, {"multi_last": [">"], "max_bytes": 60},
        {"multi_last": [">"], "seq": 20}, {"multi_last": [">"], "seq": last + 9}, {"multi_last": [">"], "no_hdr": True},
        {"multi_last": [">"], "seq": 15, "batch": 2, "up_to_seq": 30},
        *({"multi_last": [">"], "up_to_seq": seq} for seq in (1, 2, 5, 11, 19, last, last + 1, first, first - 1)),
        {"multi_last": [f"{name}.k1", f"{name}.k2"], "up_to_seq": 30},
        {"multi_last": [">"], "start_time": "2020-01-01T00:00:00Z"},
        *({"multi_last": [">"], "up_to_time": format_time(ts)} for ts in (times[0], times[0] + 1, middle, middle + 1)),
        *({"multi_last": [f"{name}.>"], "up_to_time": format_time(ts)} for ts in (times[-1], times[-1] + 1, 1)),
        {"seq": 1, "last_by_subj": "a"}, {"seq": 1, "start_time": format_time(middle)}, {"up_to_seq": 3},
        {"start_time": format_time(middle), "last_by_subj": "a"}, {"last_by_subj": "a", "next_by_subj": "b"},
        {"last_by_subj": "a", "batch": 2}, {"last_by_subj": "a", "multi_last": ["b"]}, {"no_hdr": True},
        {"next_by_subj": "a", "multi_last": ["b"]}, {"multi_last": ["a"], "up_to_seq": 1, "up_to_time": format_time(1)},
        {"seq": 3, "up_to_seq": 1}, {"seq": 3, "unknown": {"a": [1]}}, {"SEQ": 3}, {"Seq": 3, "seq": 4},
        None, [], "text", 5, {}, {"seq": -1}, {"seq": 1.0}, {"seq": "3"}, {"seq": 2**64}, {"batch": 1.5, "seq": 1},
        {"multi_last": ">"}, {"multi_last": [1]}, {"no_hdr": 1, "seq": 3}, {"seq": None, "next_by_subj": ">"},
    ]  # fmt: skip
    texts = (b"", b" ", b"{", b'{"seq":3} x', b'{"seq":03}', b'{"seq":3,}', b"\xff", b'{"seq":NaN}')
    key = f".{name}.a.1"
    appended: tuple[Any, ...] = (
        *({"seq": 1}, {}, {"no_hdr": True}, {"max_bytes": 5}, {"batch": 1}, {"batch": -1}, {"last_by_subj": "a"}),
        *([], None),
    )
    return [
        *(_Request(json.dumps(body).encode()) for body in bodies),
        *(_Request(text) for text in texts),
        *(_Request(b"", f".{name}.{end}") for end in ("a.1", "k3", "none", "last", "p.1")),
        *(_Request(json.dumps(body).encode(), key) for body in appended),
        _Request(b"{", key),
        *(_Request(b'{"seq":3}', "", [("Nats-Required-Api-Level", level)]) for level in ("0", "1", "99", "x", "")),
    ]
