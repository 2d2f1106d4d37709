"""The consumer requests that are put to nats-server and to Silt: a table, and seeded random ones."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

MS = 10**6
SECOND = 10**9

STREAMS: dict[str, dict[str, Any]] = {
    "S": {"subjects": ["s.>", "t.*"]},
    "W": {"subjects": ["w.>"], "retention": "workqueue"},
    "I": {"subjects": ["i.>"], "retention": "interest"},
    "L": {"subjects": ["l.>"], "consumer_limits": {"inactive_threshold": 90 * SECOND, "max_ack_pending": 50}},
    "M": {"subjects": ["m.>"], "max_consumers": 1},
    "WM": {"subjects": ["wm.>"], "retention": "workqueue", "max_consumers": 2},
}
"""The streams that every case finds, without consumers and messages."""


class Step(NamedTuple):
    """One request: what follows ``$JS.API.CONSUMER.``, and its body."""

    endpoint: str
    payload: bytes = b""
    header: bytes = b""


def raw(endpoint: str, body: Any = b"", header: bytes = b"") -> Step:
    """A request with any body."""
    return Step(endpoint, body if isinstance(body, bytes) else json.dumps(body).encode(), header)


def made(name: str = "c", stream: str = "S", /, **config: Any) -> Step:
    """A create request whose subject names the consumer."""
    return raw(f"CREATE.{stream}.{name}", {"stream_name": stream, "config": config})


def durable(name: str = "c", stream: str = "S", /, **config: Any) -> Step:
    """A create request in the old way for durable consumers."""
    return raw(f"DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": {"durable_name": name, **config}})


def acted(action: Any, name: str = "c", stream: str = "S", /, **config: Any) -> Step:
    """A create request with an action."""
    return raw(f"CREATE.{stream}.{name}", {"stream_name": stream, "config": config, "action": action})


def strict(name: str = "c", stream: str = "S", /, **config: Any) -> Step:
    """A pedantic create request."""
    return raw(f"CREATE.{stream}.{name}", {"stream_name": stream, "config": config, "pedantic": True})


def shown(name: str = "c", stream: str = "S", /) -> Step:
    """An info request."""
    return Step(f"INFO.{stream}.{name}")


PUSH = {"deliver_subject": "d.x"}
EXPLICIT = {"ack_policy": "explicit"}
FLOW = {"ack_policy": "flow_control", "deliver_subject": "d.x"}
LATER = "2200-01-01T00:00:00Z"
ALL_PULL: dict[str, Any] = {
    "durable_name": "c",
    "name": "c",
    "description": "d<&>",
    "deliver_policy": "by_start_sequence",
    "opt_start_seq": 7,
    "ack_policy": "explicit",
    "max_deliver": 9,
    "backoff": [SECOND, 2 * SECOND],
    "filter_subjects": ["s.a", "s.b.>"],
    "replay_policy": "original",
    "sample_freq": "30%",
    "max_waiting": 3,
    "max_ack_pending": 4,
    "headers_only": True,
    "max_batch": 5,
    "max_expires": SECOND,
    "max_bytes": 6,
    "inactive_threshold": 60 * SECOND,
    "num_replicas": 1,
    "mem_storage": True,
    "metadata": {"z": "1", "a": "2"},
    "pause_until": LATER,
    "priority_groups": ["g", "h"],
    "priority_policy": "overflow",
    "priority_timeout": SECOND,
}
ALL_PUSH: dict[str, Any] = {
    "durable_name": "c",
    "deliver_policy": "by_start_time",
    "opt_start_time": "2024-02-03T04:05:06.123456789Z",
    "ack_policy": "all",
    "ack_wait": 3 * SECOND,
    "filter_subject": "s.*",
    "rate_limit_bps": 9000,
    "flow_control": True,
    "deliver_subject": "d.x",
    "deliver_group": "q",
    "idle_heartbeat": SECOND,
}

_SINGLE: tuple[dict[str, Any], ...] = (
    {},
    ALL_PULL,
    ALL_PUSH,
    {"name": "d"},
    {"durable_name": "c"},
    {"durable_name": "d"},
    {"name": "c", "durable_name": "c"},
    {"name": "a.b"},
    {"description": "é" * 2048},
    {"description": "é" * 2049},
    {"metadata": {"k": "x" * (128 * 1024 - 17)}},
    {"metadata": {"k": "x" * (128 * 1024 - 16)}},
    {"metadata": {"_nats.ver": "x", "_nats.level": "9", "_nats.req.level": "7", "_nats.x": "y"}},
    {"metadata": None},
    *({"deliver_policy": word} for word in ("all", "last", "new", "undefined", "other", "", None, 1)),
    *({"deliver_policy": policy, "opt_start_seq": 1} for policy in ("all", "last", "new", "by_start_time")),
    *({"deliver_policy": policy, "opt_start_time": LATER} for policy in ("all", "last", "new", "by_start_sequence")),
    {"deliver_policy": "last_per_subject"},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
    {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]},
    {"deliver_policy": "last_per_subject", "opt_start_seq": 1},
    {"deliver_policy": "last_per_subject", "opt_start_time": LATER},
    {"deliver_policy": "by_start_sequence"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5, "opt_start_time": LATER},
    {"deliver_policy": "by_start_time"},
    {"deliver_policy": "by_start_time", "opt_start_time": "1970-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "0001-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00.5Z", "opt_start_seq": 5},
    {"opt_start_time": "nonsense"},
    {"opt_start_seq": -1},
    *({"ack_policy": word} for word in ("none", "all", "explicit", "flow_control", "other", "", None, 7)),
    {"ack_policy": {}},
    *({"replay_policy": word} for word in ("instant", "original", "other", None)),
    *({"priority_policy": word} for word in ("none", "overflow", "other", "", None, 7, [1])),
    {"ack_wait": -1, **EXPLICIT},
    {"ack_wait": 1, **EXPLICIT},
    {"ack_wait": 5, "ack_policy": "none"},
    {"backoff": [-1], **EXPLICIT},
    {"backoff": [1, 2, 3], "max_deliver": 2, **EXPLICIT},
    {"backoff": [1, 2, 3], "max_deliver": 3, **EXPLICIT},
    {"backoff": [1, 2, 3], "ack_wait": -1},
    {"backoff": [None, 2]},
    {"backoff": [], **EXPLICIT},
    *({"max_deliver": number} for number in (-5, -1, 0, 1, 2**63)),
    *({"max_waiting": number} for number in (-5, 0, 1, 100_000)),
    *({"max_ack_pending": number, **EXPLICIT} for number in (-5, -1, 0, 1, 100_000)),
    {"max_ack_pending": 5},
    {"max_ack_pending": 5, **PUSH},
    {"max_ack_pending": -1, **PUSH},
    *({"sample_freq": text} for text in ("5", "5%", "%", "5%%", "+5", "-5", "-0", "x", "1.5", "9" * 30, '"\\', " 5")),
    {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
    {"filter_subject": "s..a"},
    {"filter_subject": "s a"},
    {"filter_subject": "other.>"},
    {"filter_subject": ">"},
    {"filter_subjects": []},
    {"filter_subjects": [""]},
    {"filter_subjects": [None, "s.a"]},
    {"filter_subjects": ["s.a", "s.a"]},
    {"filter_subjects": ["s.a", "s.*"]},
    {"filter_subjects": ["s.*", "s.a.b"]},
    {"filter_subjects": ["s.*.b", "s.a.*"]},
    {"filter_subjects": ["s.a", "s..b"]},
    {"filter_subjects": ["s.a"]},
    {"rate_limit_bps": 5},
    {"rate_limit_bps": 5, **PUSH},
    {"flow_control": True},
    {"flow_control": True, **PUSH},
    {"flow_control": True, "idle_heartbeat": SECOND, **PUSH},
    {"idle_heartbeat": SECOND},
    {"idle_heartbeat": 99 * MS, **PUSH},
    {"idle_heartbeat": 100 * MS, **PUSH},
    {"idle_heartbeat": -1, **PUSH},
    *({"max_batch": number} for number in (-1, 1)),
    *({"max_bytes": number} for number in (-1, 1)),
    *({"max_expires": number} for number in (-1, 1, MS - 1, MS)),
    {"max_expires": 1, "max_batch": 2, **PUSH},
    *({"inactive_threshold": number} for number in (-1, 1, 3600 * SECOND)),
    {"inactive_threshold": 3600 * SECOND, "durable_name": "c"},
    {"inactive_threshold": -1, "durable_name": "c"},
    *({"num_replicas": number} for number in (-1, 0, 1, 2, 3)),
    {"mem_storage": True},
    {"direct": True},
    {"direct": True, **PUSH},
    {"direct": True, "durable_name": "c", **PUSH},
    *({"deliver_subject": subject} for subject in ("d.*", ">", "d..x", "d x", "s.a", "t.a", "t.a.b", "*", "d*")),
    {"deliver_group": "q"},
    {"deliver_group": "q", **PUSH},
    {"max_waiting": 5, **PUSH},
    {"max_waiting": -5, **PUSH},
    {"pause_until": LATER},
    {"pause_until": "2001-01-01T00:00:00Z"},
    {"pause_until": None},
    {"priority_groups": ["g"]},
    {"priority_groups": ["g"], "priority_policy": "none"},
    {"priority_timeout": SECOND},
    {"priority_groups": [], "priority_policy": "overflow"},
    *({"priority_groups": ["g"], "priority_policy": word} for word in ("overflow", "pinned_client", "prioritized")),
    {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": SECOND},
    {"priority_groups": ["g"], "priority_policy": "overflow", **PUSH},
    *(
        {"priority_groups": [group], "priority_policy": "overflow"}
        for group in ("", None, "a b", "x" * 16, "x" * 17, "a/_=-Z9", "é")
    ),
    FLOW,
    {**FLOW, "deliver_subject": ""},
    {**FLOW, "max_ack_pending": -1},
    {**FLOW, "ack_wait": SECOND},
    {**FLOW, "backoff": [SECOND]},
    {**FLOW, "max_deliver": 5},
    {**FLOW, "idle_heartbeat": 5 * SECOND, "flow_control": False},
    {"xyz": 1},
    {"durable_name": 1},
    {"backoff": [1, "x"]},
    {"metadata": {"a": 1}},
    {"priority_groups": "g"},
    {"max_deliver": 1.5},
)
"""Configurations that are asked for alone, of stream S."""

_STRICT: tuple[dict[str, Any], ...] = (
    {},
    {"max_deliver": -2},
    {"max_deliver": -1},
    {"max_waiting": -1},
    {"max_ack_pending": -2},
    {"max_batch": -1},
    {"max_expires": -1},
    {"max_bytes": -1},
    {"idle_heartbeat": -1},
    {"inactive_threshold": -1},
    {"priority_timeout": -1},
    {"backoff": [SECOND], **EXPLICIT},
    {"backoff": [SECOND], "ack_wait": SECOND, **EXPLICIT},
    FLOW,
    {**FLOW, "flow_control": True},
    {**FLOW, "flow_control": True, "idle_heartbeat": SECOND},
    {"max_ack_pending": -2, "max_waiting": -1},
)

_UPDATES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"durable_name": "c"}, {}),
    ({}, {"durable_name": "c"}),
    ({}, {"deliver_policy": "new"}),
    ({}, {"mem_storage": True}),
    (PUSH, {**PUSH, "direct": True}),
    (
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
    ),
    (
        {"deliver_policy": "by_start_time", "opt_start_time": LATER},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
    ),
    ({}, EXPLICIT),
    ({}, {"replay_policy": "original"}),
    (PUSH, {**PUSH, "idle_heartbeat": SECOND}),
    (PUSH, {**PUSH, "idle_heartbeat": SECOND, "flow_control": True}),
    ({**PUSH, "idle_heartbeat": SECOND}, {**PUSH, "idle_heartbeat": SECOND, "flow_control": True}),
    ({}, PUSH),
    (PUSH, {}),
    (PUSH, {"deliver_subject": "d.y"}),
    (PUSH, {**PUSH, "deliver_group": "q"}),
    ({}, {"max_waiting": 5}),
    (EXPLICIT, {**EXPLICIT, "max_deliver": 5, "ack_wait": SECOND, "max_ack_pending": 5}),
    (EXPLICIT, {**EXPLICIT, "backoff": [1, 2], "max_deliver": 1}),
    ({}, {"filter_subject": "s.a"}),
    ({"filter_subject": "s.a"}, {"filter_subjects": ["s.a", "s.b"]}),
    ({"filter_subject": "s.a"}, {}),
    ({}, {"sample_freq": "50"}),
    ({}, {"sample_freq": "x"}),
    ({}, {"inactive_threshold": 60 * SECOND}),
    ({"inactive_threshold": 60 * SECOND}, {}),
    ({"durable_name": "c", "inactive_threshold": 60 * SECOND}, {"durable_name": "c"}),
    ({"durable_name": "c"}, {"durable_name": "c", "inactive_threshold": 60 * SECOND}),
    ({}, {"headers_only": True, "description": "d", "metadata": {"a": "b"}}),
    ({"metadata": {"a": "b"}}, {"metadata": {"_nats.req.level": "3"}}),
    ({}, {"pause_until": LATER}),
    ({"pause_until": LATER}, {"description": "x"}),
    ({}, {"priority_groups": ["g"], "priority_policy": "overflow"}),
    ({"priority_groups": ["g"], "priority_policy": "overflow"}, {}),
    ({}, {"max_batch": 5, "max_expires": SECOND, "max_bytes": 6, "num_replicas": 1}),
    (PUSH, {**PUSH, "rate_limit_bps": 1000}),
    ({}, {"num_replicas": 3}),
    ({}, {"direct": True}),
)

_WORKQUEUE: tuple[tuple[dict[str, Any], ...], ...] = (
    ({},),
    (PUSH,),
    ({"ack_policy": "all"},),
    ({**FLOW},),
    ({**EXPLICIT, "deliver_policy": "new"},),
    ({**EXPLICIT, "deliver_policy": "last_per_subject", "filter_subject": "w.a"},),
    (EXPLICIT, EXPLICIT),
    (EXPLICIT, {**EXPLICIT, "filter_subject": "w.a"}),
    ({**EXPLICIT, "filter_subject": "w.a"}, EXPLICIT),
    ({**EXPLICIT, "filter_subject": "w.a"}, {**EXPLICIT, "filter_subject": "w.b"}),
    ({**EXPLICIT, "filter_subject": "w.a"}, {**EXPLICIT, "filter_subject": "w.*"}),
    ({**EXPLICIT, "filter_subjects": ["w.a", "w.b.*"]}, {**EXPLICIT, "filter_subjects": ["w.c", "w.*.c"]}),
    ({**EXPLICIT, "filter_subject": "w.a"}, {"direct": True, **PUSH, "filter_subject": "w.a"}),
    ({"direct": True, **PUSH}, EXPLICIT),
    ({"direct": True, **PUSH}, {**EXPLICIT, "filter_subject": "w.a"}),
    ({**EXPLICIT, "num_replicas": 1},),
)


def _table() -> Iterator[tuple[str, list[Step]]]:
    for config in _SINGLE:
        yield f"create {config}", [made(**config)]
    for config in _STRICT:
        yield f"pedantic {config}", [strict(**config)]
        yield f"pedantic on L {config}", [strict("c", "L", **config)]
    for before, after in _UPDATES:
        for action in ("", "create", "update"):
            steps = [made(**before), acted(action, **after), shown()]
            yield f"{action} {before} then {after}", steps
    for configs in _WORKQUEUE:
        steps = [made(f"c{number}", "W", **config) for number, config in enumerate(configs)]
        yield f"workqueue {configs}", steps
        yield f"workqueue updated {configs}", [*steps, *(made("c0", "W", **config) for config in configs)]
    for threshold in (1, 91 * SECOND, 3600 * SECOND):
        yield f"limited threshold {threshold}", [made("c", "L", inactive_threshold=threshold)]
    for most in (0, 50, 51, -1):
        yield f"limited pending {most}", [made("c", "L", max_ack_pending=most, **EXPLICIT)]
    yield "limits as defaults", [made("c", "L"), made("d", "L", **PUSH), durable("e", "L", **EXPLICIT, **PUSH)]
    yield "most consumers", [made("c", "M"), made("c", "M"), made("d", "M"), made("e", "M", direct=True, **PUSH)]
    yield "most of a workqueue", [made(f"c{one}", "WM", filter_subject=f"wm.{one}", **EXPLICIT) for one in range(3)]
    yield "interest", [made("c", "I", num_replicas=1), made("d", "I", num_replicas=2), made("e", "I", num_replicas=-1)]
    yield "not there", [acted("update"), acted("create"), acted("create"), acted("update"), acted("other")]
    yield "created again", [made(), acted("create"), acted("create", inactive_threshold=5 * SECOND)]
    yield "long names", [durable("n" * 255), durable("n" * 256)]
    yield from _names().items()
    yield from _other_endpoints().items()


def _names() -> dict[str, list[Step]]:
    named: dict[str, Any] = {"stream_name": "S", "config": {"name": "c"}}
    filtered: dict[str, Any] = {"stream_name": "S", "config": {"filter_subject": "s.a"}}
    return {
        "no name": [raw("CREATE.S", {"stream_name": "S"}), Step("NAMES.S"), Step("LIST.S")],
        "name in the body": [raw("CREATE.S", named), Step("NAMES.S")],
        "durable in the body": [raw("CREATE.S", {"stream_name": "S", "config": {"durable_name": "c"}})],
        "path in the body": [raw("CREATE.S", {"stream_name": "S", "config": {"name": "a/b"}})],
        "dot in the body": [raw("CREATE.S", {"stream_name": "S", "config": {"name": "a.b"}})],
        "slash": [raw("CREATE.S.a/b", {"stream_name": "S"})],
        "backslash": [raw("CREATE.S.a\\b", {"stream_name": "S"})],
        "star": [raw("CREATE.S.*", {"stream_name": "S"})],
        "other stream": [raw("CREATE.S.c", {"stream_name": "T"}), raw("CREATE.S.c", {}), raw("CREATE.S.c")],
        "no stream": [raw("CREATE.X.c", {"stream_name": "X"}), raw("CREATE.X", {"stream_name": "X"})],
        "no stream, replicas": [raw("CREATE.X.c", {"stream_name": "X", "config": {"num_replicas": 2}})],
        "filter": [raw("CREATE.S.c.s.a", filtered), raw("CREATE.S.c.s.b", filtered), raw("CREATE.S.c.>", filtered)],
        "filter and none": [raw("CREATE.S.c.s.a", {"stream_name": "S"})],
        "filter and many": [raw("CREATE.S.c.s.a", {"stream_name": "S", "config": {"filter_subjects": ["s.a"]}})],
        "old": [durable(), durable(), shown(), Step("NAMES.S")],
        "old without name": [raw("DURABLE.CREATE.S.c", {"stream_name": "S"})],
        "old with other name": [raw("DURABLE.CREATE.S.c", {"stream_name": "S", "config": {"durable_name": "d"}})],
        "old with name": [durable("c", "S", name="x"), shown()],
        "old with slash": [raw("DURABLE.CREATE.S.a/b", {"stream_name": "S", "config": {"durable_name": "a/b"}})],
        "level": [Step("CREATE.S.c", json.dumps(named).encode(), b"NATS/1.0\r\nNats-Required-Api-Level: 9\r\n\r\n")],
        "syntax": [raw("CREATE.S.c", b"{"), raw("CREATE.S.c", b"[]"), raw("CREATE.S.c", b'{"config":1}')],
        "null config": [raw("CREATE.S.c", {"stream_name": "S", "config": None})],
        "unknown": [raw("CREATE.S.c", {"stream_name": "S", "config": {}, "more": 1})],
        "actions": [acted(None), acted(1), acted("Create"), acted(""), acted(True)],
        "pedantic text": [raw("CREATE.S.c", {"stream_name": "S", "pedantic": "yes"})],
    }


def _other_endpoints() -> dict[str, list[Step]]:
    many = [made(f"c{number}", **({"durable_name": f"c{number}"} if number % 2 else {})) for number in range(5)]
    pinned = made(priority_groups=["g", "h"], priority_policy="pinned_client")
    return {
        "names": [*many, Step("NAMES.S"), *(raw("NAMES.S", {"offset": number}) for number in (-1, 2, 5, 9))],
        "names refused": [
            Step("NAMES.X"),
            raw("NAMES.S", {"offset": "1"}),
            raw("NAMES.S", {"x": 1}),
            raw("NAMES.S", b"x"),
        ],
        "list": [*many, Step("LIST.S"), *(raw("LIST.S", {"offset": number}) for number in (-1, 2, 5, 9))],
        "list refused": [Step("LIST.X"), raw("LIST.S", {"offset": "1"}), raw("LIST.S", b"{")],
        "hidden": [made(direct=True, **PUSH), Step("NAMES.S"), Step("LIST.S"), shown()],
        "info": [made(), shown(), raw("INFO.S.c", b"{}"), raw("INFO.S.c", b"x"), shown("d"), shown("c", "X")],
        "delete": [
            made(),
            raw("DELETE.S.c", b"x"),
            Step("DELETE.S.c"),
            Step("DELETE.S.c"),
            Step("DELETE.X.c"),
            shown(),
        ],
        "pause": [
            made(),
            raw("PAUSE.S.c", {"pause_until": LATER}),
            shown(),
            Step("LIST.S"),
            raw("PAUSE.S.c", {"pause_until": "2001-01-01T00:00:00+02:00"}),
            shown(),
            Step("PAUSE.S.c"),
            shown(),
            raw("PAUSE.S.c", {"pause_until": "0001-01-01T00:00:00Z"}),
            raw("PAUSE.S.c", {"pause_until": "x"}),
            raw("PAUSE.S.c", {"x": 1}),
            raw("PAUSE.S.c", b"x"),
            raw("PAUSE.S.d", {}),
            raw("PAUSE.X.c", {}),
        ],
        "pause and update": [made(), raw("PAUSE.S.c", {"pause_until": LATER}), made(description="x"), shown()],
        "unpin": [
            pinned,
            shown(),
            *(raw("UNPIN.S.c", {"group": group}) for group in ("g", "h", "i", "", "a b", 1, None)),
            raw("UNPIN.S.c", {"group": "g", "more": 1}),
            *(raw("UNPIN.S.c", text) for text in (b"", b"{", b"null", b"[]", b"1", b'{"group":"g"} x', b'{"group" 1}')),
            raw("UNPIN.S.d", {"group": "g"}),
            raw("UNPIN.X.d", {"group": "g"}),
        ],
        "reset": [
            made(**EXPLICIT),
            *(raw("RESET.S.c", text) for text in (b"", b"{}", b"null", b'{"seq":1}', b'{"seq":5}', b'{"seq":0}')),
            shown(),
            *(raw("RESET.S.c", text) for text in (b"{", b"[]", b'{"seq":-1}', b'{"seq":"1"}', b'{"seq":2,"x":1}')),
        ],
        "reset new": [made(deliver_policy="new"), raw("RESET.S.c", {"seq": 2}), raw("RESET.S.c")],
        "reset by sequence": [
            made(deliver_policy="by_start_sequence", opt_start_seq=4),
            *(raw("RESET.S.c", {"seq": number}) for number in (3, 4, 5, 0)),
        ],
    }


_POOL: dict[str, tuple[Any, ...]] = {
    "durable_name": ("c", "d"),
    "deliver_policy": ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
    "opt_start_seq": (0, 3),
    "opt_start_time": (LATER, "2020-05-05T05:05:05Z"),
    "ack_policy": ("none", "all", "explicit", "explicit", "flow_control"),
    "ack_wait": (-1, 0, SECOND),
    "max_deliver": (-2, 0, 1, 4),
    "backoff": ([], [SECOND], [SECOND, 2 * SECOND], [-1]),
    "filter_subject": ("{}.a", "{}.>", "x y"),
    "filter_subjects": (["{}.a", "{}.b"], ["{}.a", "{}.*"], [""]),
    "replay_policy": ("instant", "original"),
    "rate_limit_bps": (0, 8000),
    "sample_freq": ("20%", "x"),
    "max_waiting": (-1, 0, 7),
    "max_ack_pending": (-2, -1, 0, 40, 60),
    "flow_control": (True, False),
    "headers_only": (True,),
    "max_batch": (-1, 10),
    "max_expires": (-1, 5, SECOND),
    "max_bytes": (-1, 10),
    "deliver_subject": ("d.x", "d.x", "d.x", "{}.x", "d.*"),
    "deliver_group": ("q",),
    "idle_heartbeat": (-1, 5, SECOND),
    "inactive_threshold": (-1, SECOND, 100 * SECOND),
    "num_replicas": (-1, 0, 1, 2),
    "mem_storage": (True,),
    "direct": (True, False),
    "metadata": ({"k": "v"},),
    "pause_until": (LATER,),
    "priority_groups": (["g"], [""], ["a b"]),
    "priority_policy": ("none", "overflow", "pinned_client"),
    "priority_timeout": (0, SECOND),
}


def _at_random(seed: int, count: int) -> Iterator[tuple[str, list[Step]]]:
    """Two requests after another for the same consumer, each with a few fields of any value."""
    chance = Random(seed)
    for number in range(count):
        stream = chance.choice(list(STREAMS))
        steps = []
        for _ in range(2):
            config = _random_config(chance, stream.lower())
            body: dict[str, Any] = {"stream_name": stream, "config": config}
            if chance.random() < 0.2:
                body["pedantic"] = True
            if chance.random() < 0.2:
                body["action"] = chance.choice(("create", "update"))
            steps.append(raw(f"CREATE.{stream}.c", body))
        yield f"random {seed}/{number} on {stream}", [*steps, shown("c", stream)]


def _random_config(chance: Random, prefix: str) -> dict[str, Any]:
    fields = chance.sample(list(_POOL), chance.randint(1, 7))
    config = {field: _with_prefix(chance.choice(_POOL[field]), prefix) for field in fields}
    if chance.random() < 0.5:
        config.setdefault("ack_policy", "explicit")
    return config


def _with_prefix(value: Any, prefix: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", prefix)
    return [_with_prefix(item, prefix) for item in value] if isinstance(value, list) else value


def _labelled(cases: Iterator[tuple[str, list[Step]]]) -> dict[str, list[Step]]:
    return {(name if len(name) <= 80 else f"{name[:80]}… {place}"): steps for place, (name, steps) in enumerate(cases)}


TABLE = _labelled(_table())
"""Requests written down, by what they are about."""

AT_RANDOM = _labelled(_at_random(1, 400))
"""Random ones."""
