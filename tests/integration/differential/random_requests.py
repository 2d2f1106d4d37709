"""Requests at random, most of them nearly right: what to ask both servers, the same for the same seed. No IO.

Values are those around which rules change: zero, one, minus one, the limits, empty, misspelt. What nats-server leaves
to chance, or Silt does otherwise on purpose, is not asked for; the scenarios have it.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_SECOND: Final = 10**9
_HOUR: Final = 3600 * _SECOND
_ENDS: Final = ("a", "b", "a.b", "a.c", "x.y.z")
_FILTERS: Final = (
    *("s.a", "s.b", "s.>", "s.*", "s.a.*", "s.*.b", "*.a", ">", "*.>", "s.none", "t.a", "s", "s.a.b", "", "s.a.>"),
    *("s..a", "s. a", "$JS.>", "$JS.API.>", "$KV.b.>", "_INBOX.>", "s.x*"),
)
_NUMBERS: Final = (-2, -1, 0, 1, 2, 3, 5, 10, 100, 1_000, 10**6, _SECOND, 60 * _SECOND, 2**31, 2**62)
_DURATIONS: Final = (-1, 0, 1, 10**6, 10**8, _SECOND, 5 * _SECOND, 30 * _SECOND, _HOUR)
_SWITCH: Final = (True, False)
_LONG: Final = "y" * 5_000
_TRANSFORMS: Final = (
    *(None, {}, {"src": "s.>", "dest": "t.>"}, {"src": "s.*", "dest": "s.{{wildcard(1)}}.x"}, {"dest": "t.>"}),
    *({"src": "s.a", "dest": ""}, {"src": "s.*.*", "dest": "s.$2.$1"}, {"src": "s.*", "dest": "s.{{partition(3,1)}}"}),
    *({"src": "s.>", "dest": "s.a"}, {"src": "s.*", "dest": "s.{{wildcard(2)}}"}, {"src": "s.*", "dest": "s..a"}),
    *({"src": "s.*", "dest": "s.{{foo(1)}}"}, {"src": "s.*", "dest": "s.{{split(1,-)}}"}),
)
_REPUBLISH: Final = (
    *(None, {"src": ">", "dest": "rp.>"}, {"src": "s.>", "dest": "s.>"}, {"dest": "rp.>"}),
    {"src": "s.*", "dest": "rp.{{wildcard(1)}}", "headers_only": True},
    *({"src": "s.a", "dest": "s.b"}, {"src": "s.>", "dest": "$JS.x.>"}),
)
_STREAM: Final[Mapping[str, tuple[Any, ...]]] = {
    "description": ("", "x", _LONG),
    "subjects": (
        *(["s.>"], ["s.a", "s.b"], ["s.a", "s.a"], ["s.*", "s.a"], [], ["s.>", "t.>"], ["t.*"], None, ["$KV.B.>"]),
        *(["s.a.*", "s.*.b"], ["$JS.API.>"], ["$JS.x"], [""], ["s..a"], ["s.>.a"], ["*.a", "s.*"]),
    ),
    "retention": ("limits", "workqueue", "bad"),
    "discard": ("old", "new", "bad"),
    "storage": ("file", "memory"),
    "max_msgs": _NUMBERS,
    "max_bytes": (-2, -1, 0, 1, 50, 100, 1_000),
    "max_msgs_per_subject": _NUMBERS,
    "max_age": (-1, 0, 1, 10**6, _HOUR),
    "max_msg_size": (-2, -1, 0, 1, 10, 100, 1_000),
    "max_consumers": (-2, -1, 0, 1, 2),
    "num_replicas": (-1, 0, 1, 2, 3, 5, 6),
    "duplicate_window": (-1, 0, 1, 10**8, _SECOND, 120 * _SECOND, _HOUR),
    "first_seq": (0, 1, 5, 100),
    "subject_transform": _TRANSFORMS,
    "republish": _REPUBLISH,
    "compression": ("none", "s2", "bad"),
    "metadata": ({}, {"a": "b"}, {"_nats.x": "1"}, {"_nats.req.level": "0"}, {"k": "v" * 200}),
    "consumer_limits": (
        *({}, {"max_ack_pending": 5}, {"inactive_threshold": _SECOND}, {"max_ack_pending": -1}),
        *({"inactive_threshold": -1}, {"max_ack_pending": 3, "inactive_threshold": 5 * _SECOND}),
    ),
    "subject_delete_marker_ttl": (-1, 0, 1, 10**8, _SECOND, 60 * _SECOND),
    "persist_mode": ("default", "async", "bad"),
    "placement": (None, {}, {"cluster": "x"}, {"tags": ["a"]}, {"preferred": "x"}),
    "template_owner": ("x",),
    **dict.fromkeys(
        ("sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "allow_direct", "mirror_direct"), _SWITCH
    ),
    **dict.fromkeys(("discard_new_per_subject", "allow_msg_ttl", "allow_msg_counter", "allow_atomic"), _SWITCH),
    **dict.fromkeys(("allow_batched", "allow_msg_schedules"), _SWITCH),
}
_CONSUMER: Final[Mapping[str, tuple[Any, ...]]] = {
    "name": ("C", "D", "C", "bad.name", "", None),
    "durable_name": ("C", "D", "", "bad.name", "C"),
    "description": ("", "x", _LONG),
    "deliver_policy": ("all", "last", "new", "last_per_subject", "by_start_sequence", "by_start_time", "bad"),
    "opt_start_seq": (0, 1, 3, 1_000),
    "opt_start_time": ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "x"),
    "ack_policy": ("none", "all", "explicit", "explicit", "flow_control", "bad"),
    "ack_wait": _DURATIONS,
    "max_deliver": (-2, -1, 0, 1, 2, 5),
    "backoff": ([], [_SECOND], [_SECOND, 2 * _SECOND], [-1], [0], [_SECOND] * 5),
    "filter_subject": _FILTERS,
    "filter_subjects": ([], ["s.a"], ["s.a", "s.b"], ["s.a", "s.a"], ["s.*", "s.a"], ["s.a", ""], [""], ["s..a", ">"]),
    "replay_policy": ("instant", "original", "bad"),
    "rate_limit_bps": (0, 1_000, 10**9),
    "sample_freq": ("", "100%", "50", "0", "101", "-1", "x", "100 %", " 5", "5%%"),
    "max_waiting": (-1, 0, 1, 5, 1_000),
    "max_ack_pending": (-2, -1, 0, 1, 5, 1_000),
    "max_batch": (-1, 0, 1, 5),
    "max_expires": (-1, 0, 1, 10**6, _SECOND),
    "max_bytes": (-1, 0, 1, 100),
    "inactive_threshold": (-1, 0, 5 * _SECOND, 30 * _SECOND, _HOUR),
    "num_replicas": (-1, 0, 1, 2, 3, 6),
    "metadata": ({}, {"a": "b"}, {"_nats.req.level": "9"}),
    "idle_heartbeat": (-1, 0, 10**7, 10**8, _SECOND, 5 * _SECOND),
    "deliver_subject": ("d.x", "", "d.>", "s.a", "$JS.x", "d..x", "d x", "_INBOX.x"),
    "deliver_group": ("q", "", "a.b", "a b"),
    "priority_policy": ("none", "overflow", "pinned_client", "prioritized", "bad"),
    "priority_groups": ([], ["g"], ["g", "h"], [""], ["a b"], ["x" * 20], ["g.h"]),
    "priority_timeout": (0, 1, _SECOND, 60 * _SECOND),
    "pause_until": ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "x"),
    **dict.fromkeys(("headers_only", "mem_storage", "flow_control"), _SWITCH),
}
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Msg-Id": ("1", "2", "", "x" * 300, " a"),
    "Expected-Stream": ("S", "T", "", "s", "S "),
    "Expected-Last-Msg-Id": ("1", "2", "", "x"),
    "Expected-Last-Sequence": ("0", "1", "2", "", "x", "-1", "01", "+1", " 2", "2 ", "9" * 20),
    "Expected-Last-Subject-Sequence": ("0", "1", "2", "", "x", "-1", "01", "2 "),
    "Expected-Last-Subject-Sequence-Subject": ("s.a", "s.b", "", "s.>", "t.a", "s..a", "*.a", "x y"),
    "Rollup": ("sub", "all", "", "x", "SUB", "Sub", "All", "sub "),
    "TTL": (
        *("1", "5s", "1h", "never", "NEVER", "", "x", "-1", "0", "0s", "1.5s", "1s500ms", "500ms", "9" * 11, "1d"),
        *("5 s", "+5", "1.5", "007", "9999999999h"),
    ),
    "Incr": ("1", "+1", "-1", "0", "", "x", "007", "9" * 23, "1.5", " 1", "+", "-0"),
    "Counter-Sources": (
        *("{}", "x", "null", '{"S":{"s.a":"5"}}', '{"S":null}', '{ "S":{"s.b":"1", "s.a":"<"}, "A":{"a":null}}'),
        '{"S":{"s.a":5}}',
    ),
    "Stream-Source": ("x", "S 1 > > s.a"),
    "Batch-Id": ("b1", "b2", "", "x" * 65),
    "Batch-Sequence": ("1", "2", "3", "", "x", "0", "01", "+1"),
    "Batch-Commit": ("1", "eob", "", "0", "x", "true"),
    "Schedule": (
        *("@at 2036-01-01T00:00:00Z", "@every 1h", "@every 1ns", "x", "", "@at x", "0 0 0 1 1 *", "@hourly"),
        *("@yearly", "* * * * *"),
    ),
    "Schedule-Target": ("s.b", "s.a", "", "s.>", "t.x", "x y", "s..a"),
    "Schedule-Source": ("s.b", "s.>", "", "x"),
    "Schedule-TTL": ("5s", "x", "", "never", "0"),
    "Schedule-Time-Zone": ("Europe/Berlin", "x", "", "UTC", "CET"),
    "Schedule-Rollup": ("sub", "x", ""),
    "Schedule-Next": ("purge", "x", "2036-01-01T00:00:00Z"),
    "Scheduler": ("s.a", "x"),
    "Marker-Reason": ("MaxAge", "x"),
    "Required-Api-Level": ("1", "99", "x"),
    "Request-Info": ("x",),
    **dict.fromkeys(("Subject", "Sequence", "Stream", "Time-Stamp", "Last-Sequence", "Expected-Last-X"), ("x", "5")),
}
_TOGETHER: Final = (
    *(("Msg-Id",), ("Expected-Stream",), ("Expected-Last-Msg-Id", "Msg-Id"), ("Expected-Last-Sequence",), ("Rollup",)),
    *(("Expected-Last-Subject-Sequence",), ("TTL",), ("Incr",), ("Incr", "TTL"), ("Counter-Sources", "Incr")),
    *(("Expected-Last-Subject-Sequence", "Expected-Last-Subject-Sequence-Subject"), ("Stream-Source",)),
    *(("Batch-Id", "Batch-Sequence"), ("Batch-Id", "Batch-Sequence", "Batch-Commit"), ("Schedule", "Schedule-Target")),
    *(("Schedule", "Schedule-Target", f"Schedule-{one}") for one in ("Source", "TTL", "Time-Zone", "Rollup")),
    *(
        ("Rollup", "Expected-Last-Subject-Sequence"),
        ("TTL", "Rollup"),
        ("Msg-Id", "TTL"),
        ("Schedule-Next", "Scheduler"),
    ),
)
_OTHERS: Final = (
    *("Key: v", "Key:v", "Key:  v ", "K-Nats-Msg-Id: z", "KV-Operation: DEL", "KV-Operation: PURGE", "Empty:"),
    "Key: a\r\nKey: b",
)
_FEATURES: Final = (
    *("allow_msg_ttl", "allow_rollup_hdrs", "allow_atomic", "allow_msg_counter", "allow_msg_schedules"),
    "discard_new_per_subject",
)
_LIMITS: Final = (
    *("max_msgs", "max_bytes", "max_msg_size", "max_msgs_per_subject", "discard", "duplicate_window", "first_seq"),
    *("subject_transform", "subject_delete_marker_ttl"),
)
_INFO: Final = b'{"subjects_filter":">"}'


class Ask(NamedTuple):
    """One request; ``many`` when its answer may be several messages."""

    subject: str
    body: bytes = b""
    header: bytes = b""
    many: bool = False


def publishing(dice: random.Random) -> list[Ask]:
    """A stream with features and limits, and messages with every kind of header block."""
    config: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
    config |= {name: True for name in _FEATURES if dice.random() < 0.45}
    if "allow_msg_counter" in config and dice.random() < 0.9:
        for name in ("allow_msg_ttl", "allow_msg_schedules", "discard_new_per_subject"):
            config.pop(name, None)
    if "discard_new_per_subject" in config:
        config |= {"discard": "new", "max_msgs_per_subject": 2}
    elif dice.random() < 0.3:
        config |= _some(dice, {name: _STREAM[name] for name in _LIMITS}, 3)
    asks = [Ask("$JS.API.STREAM.CREATE.S", _json(config))]
    for _ in range(80):
        data = dice.choice((b"", b"x", b"y" * 60, b'{"val":"5"}'))
        asks.append(Ask(f"s.{dice.choice(_ENDS)}", data, _block(dice)))
    asks.append(Ask("$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":100}', many=True))
    return [*asks, Ask("$JS.API.STREAM.INFO.S", _INFO)]


def configuring(dice: random.Random) -> list[Ask]:
    """Two streams, created, changed, published to and deleted."""
    asks = []
    for _ in range(80):
        name = dice.choice("SSST")
        own = {"name": name if dice.random() < 0.97 else "Z", "subjects": [f"{name.lower()}.>"]}
        verb, pedantic = dice.choice(("CREATE", "UPDATE")), {"pedantic": True} if dice.random() < 0.05 else {}
        asks.append(Ask(f"$JS.API.STREAM.{verb}.{name}", _json({**own, **_some(dice, _STREAM, 5), **pedantic})))
        if dice.random() < 0.25:
            asks.append(Ask(f"{dice.choice('st')}.{dice.choice(_ENDS)}", b"x" * dice.choice((1, 20)), _block(dice)))
        if dice.random() < 0.15:
            asks.append(Ask(f"$JS.API.STREAM.INFO.{name}", _INFO))
        if dice.random() < 0.12:
            asks.append(Ask(f"$JS.API.STREAM.DELETE.{name}"))
    return asks


def consuming(dice: random.Random) -> list[Ask]:
    """Consumers of one stream, created, changed, shown, paused and deleted."""
    asks = [Ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')]
    asks += [Ask(f"s.{end}", b"x") for end in _ENDS]
    for _ in range(80):
        config: dict[str, Any] = {"name": "C", "ack_policy": "explicit", **_some(dice, _CONSUMER, 5)}
        if dice.random() < 0.3:
            config["durable_name"] = config["name"]
        body: dict[str, Any] = {"stream_name": "S" if dice.random() < 0.97 else "T", "config": config}
        if dice.random() < 0.4:
            body["action"] = dice.choice(("create", "update", "", "bad"))
        if dice.random() < 0.15:
            body["pedantic"] = True
        named = f"$JS.API.CONSUMER.CREATE.S.{config['name'] or 'C'}"
        end = dice.choice((f".{config.get('filter_subject', 's.a')}", "", "", ".s.a"))
        durable = f"$JS.API.CONSUMER.DURABLE.CREATE.S.{config.get('durable_name') or 'C'}"
        subject = dice.choice((named + end, named, "$JS.API.CONSUMER.CREATE.S", durable))
        answered = not subject.endswith(".DURABLE.CREATE.S.bad.name")
        if all(subject.split(".")) and " " not in subject and answered:
            asks.append(Ask(subject, _json(body)))
        for chance, verb in ((0.2, "INFO"), (0.25, "DELETE")):
            if dice.random() < chance:
                asks.append(Ask(f"$JS.API.CONSUMER.{verb}.S.{dice.choice('CCD')}"))
        if dice.random() < 0.1:
            until = dice.choice(({}, *({"pause_until": time} for time in _CONSUMER["pause_until"])))
            asks.append(Ask("$JS.API.CONSUMER.PAUSE.S.C", _json(until)))
    return asks


def reading(dice: random.Random) -> list[Ask]:
    """A stream whose messages are read in every way, and now and then removed."""
    limits = {name: _STREAM[name] for name in ("max_msgs", "max_msgs_per_subject", "first_seq", "deny_delete")}
    config = {"name": "S", "subjects": ["s.>"], "allow_direct": True, **_some(dice, limits, 3)}
    makers = (_direct, _direct, _direct_last, _stored, _deleted, _purged, _shown, _listed, _one_more)
    return [
        Ask("$JS.API.STREAM.CREATE.S", _json(config)),
        *(_one_more(dice) for _ in range(dice.randrange(1, 12))),
        *(dice.choice(makers)(dice) for _ in range(80)),
    ]


KINDS: Final[Mapping[str, Callable[[random.Random], list[Ask]]]] = {
    one.__name__: one for one in (publishing, configuring, consuming, reading)
}


def _direct(dice: random.Random) -> Ask:
    return Ask("$JS.API.DIRECT.GET.S", _json(_read(dice)), many=True)


def _direct_last(dice: random.Random) -> Ask:
    end = dice.choice(("s.a", "s.b", "s.>", "s.none", "t", "s.a.b"))
    return Ask(f"$JS.API.DIRECT.GET.S.{end}", dice.choice((b"", b"", _json(_read(dice)))), many=True)


def _stored(dice: random.Random) -> Ask:
    return Ask("$JS.API.STREAM.MSG.GET.S", _json(_read(dice)))


def _deleted(dice: random.Random) -> Ask:
    body = dice.choice(({"seq": dice.randrange(15)}, {"seq": dice.randrange(15), "no_erase": True}, {}, {"seq": -1}))
    return Ask("$JS.API.STREAM.MSG.DELETE.S", _json(body))


def _purged(dice: random.Random) -> Ask:
    return Ask("$JS.API.STREAM.PURGE.S", _json({"filter": dice.choice(_FILTERS), **dice.choice(({}, {"keep": 1}))}))


def _shown(dice: random.Random) -> Ask:
    fields = {"subjects_filter": dice.choice(_FILTERS), "offset": dice.choice((0, 1, 5, -1))}
    return Ask("$JS.API.STREAM.INFO.S", _json(_half(dice, fields)))


def _listed(dice: random.Random) -> Ask:
    verb = dice.choice(("STREAM.LIST", "CONSUMER.NAMES.S", "CONSUMER.LIST.S"))
    return Ask(f"$JS.API.{verb}", _json(_half(dice, {"offset": dice.choice((0, 1, 5, -1)), "nonsense": 1})))


def _one_more(dice: random.Random) -> Ask:
    header = dice.choice((b"", b"NATS/1.0\r\nKey: v\r\n\r\n"))
    return Ask(f"s.{dice.choice(_ENDS)}", dice.choice((b"", b"x", b"y" * 100)), header)


def _read(dice: random.Random) -> dict[str, Any]:
    fields: dict[str, tuple[Any, ...]] = {
        "seq": (0, 1, 2, 3, 5, 100, -1),
        "last_by_subj": tuple(one for one in _FILTERS if one not in ("s..a", "s. a")),
        "next_by_subj": tuple(one for one in _FILTERS if one not in ("s..a", "s. a")),
        "multi_last": (["s.a"], ["s.>"], ["s.a", "s.b"], ["s.*", "s.>"], [], ["x"]),
        "batch": (0, 1, 2, 5, -1),
        "max_bytes": (0, 1, 50, 10**6, -1),
        "start_time": ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", "x", ""),
        "no_hdr": (True,),
    }
    return {name: dice.choice(fields[name]) for name in dice.sample(sorted(fields), dice.choice((1, 1, 2, 2, 3)))}


def _block(dice: random.Random) -> bytes:
    chance = dice.random()
    if chance < 0.15:
        return b""
    names = list(dice.choice(_TOGETHER))
    if chance > 0.8:
        names += dice.choice(_TOGETHER)
    if dice.random() < 0.1:
        names = dice.sample(sorted(_HEADERS), dice.randrange(1, 4))
    dice.shuffle(names)
    lines = [_line(dice, name) for name in names]
    if dice.random() < 0.25:
        lines.insert(dice.randrange(len(lines) + 1), dice.choice(_OTHERS))
    status = " 100 x" if dice.random() < 0.15 else ""
    return "\r\n".join([f"NATS/1.0{status}", *lines, "\r\n"]).encode()


def _line(dice: random.Random, name: str) -> str:
    full = f"Nats-{name}"
    written = full if dice.random() < 0.93 else dice.choice((full.lower(), full.upper(), f"nats-{name}"))
    between = ": " if dice.random() < 0.93 else dice.choice((":", ":  ", ":\t", " : "))
    return written + between + dice.choice(_HEADERS[name]) + ("" if dice.random() < 0.95 else dice.choice(" \t"))


def _some(dice: random.Random, fields: Mapping[str, tuple[Any, ...]], most: int) -> dict[str, Any]:
    return {name: dice.choice(fields[name]) for name in dice.sample(sorted(fields), dice.randrange(most))}


def _half(dice: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if dice.random() < 0.5}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
