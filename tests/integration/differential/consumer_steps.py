"""What happens to a consumer of the stream ``S`` on ``s.>``: tables of steps."""

import json
from typing import Any, NamedTuple

from tests.integration.differential.desk import SECOND

Step = tuple[Any, ...]


class Life(NamedTuple):
    """A consumer's configuration and what happens to it."""

    steps: list[Step]
    config: dict[str, Any]


def _stored(number: int, size: int = 10) -> list[Step]:
    return [("publish", f"s.{place % 3}", size) for place in range(number)]


def _pull(reply: str, **fields: Any) -> Step:
    return ("pull", reply, json.dumps(fields))


CREATE: Step = ("create",)
_G = {"group": "g"}
_NAK_LATER = '-NAK {"delay":300000000}'
LIVES: dict[str, Life] = {
    "basic": Life([
        *_stored(5), CREATE, ("pull", "a", "2"), ("ack", 1, "", "ra"), ("ack", 2, "+ACK", ""), ("ack", 2, "", "rb"),
        ("ack", 5, "", "rc"), _pull("b", batch=10, no_wait=True), _pull("c", batch=1, no_wait=True),
        ("ack", 4, "garbage", "rd"), ("ack", 99, "garbage", "re"), ("ack", 5, "", ""), ("ack", 3, "", ""),
    ], {}),
    "expire": Life([
        *_stored(3), CREATE, _pull("a", batch=5, expires=500000000), ("wait", 0.6),
        _pull("b", batch=5, expires=500000000, no_wait=True), ("wait", 0.6),
        _pull("c", batch=5, expires=500000000, no_wait=True), ("publish", "s.1", 5), ("wait", 0.6),
    ], {}),
    "nak": Life([
        *_stored(3), CREATE, _pull("a", batch=3), ("ack", 2, "-NAK", "r"), ("pull", "b", "1"), ("ack", 2, "-NAK", ""),
        ("ack", 2, "-NAK", ""), ("pull", "c", "3"), ("ack", 1, '-NAK {"delay":300000000}', "r"),
        _pull("d", batch=2, expires=SECOND), ("wait", 0.5), ("ack", 3, "-NAK 200ms", ""), ("wait", 0.5),
        ("ack", 3, "-NAK bad", ""), ("ack", 1, "+TERM  because", "r"), ("ack", 1, "+TERM", "r"),
        ("ack", 2, "+NXT", "n"), ("ack", 2, '+NXT {"batch":3}', "n2"), ("publish", "s.1", 1), ("publish", "s.1", 1),
    ], {}),
    "ackwait": Life([
        *_stored(4), CREATE, ("pull", "a", "4"), ("ack", 2, "+WPI", "r"), ("wait", 0.7), ("pull", "b", "10"),
        ("wait", 0.7), ("wait", 0.7), ("ack", 1, "", ""), ("ack", 3, "", "r"), ("wait", 0.9),
    ], {"ack_wait": SECOND}),
    "maxdeliver": Life([
        *_stored(2), CREATE, ("pull", "a", "2"), ("wait", 0.5), ("pull", "b", "10"), ("wait", 0.5), ("wait", 0.5),
        ("wait", 0.5), ("ack", 1, "", "r"), ("ack", 2, "", "r"),
    ], {"ack_wait": 400000000, "max_deliver": 2}),
    "maxdeliver1": Life([
        *_stored(2), CREATE, ("pull", "a", "2"), ("wait", 0.6), ("pull", "b", "10"), ("wait", 0.5),
        ("ack", 1, "", "r"),
    ], {"ack_wait": 400000000, "max_deliver": 1}),
    "maxdeliver nak": Life([
        *_stored(2), CREATE, ("pull", "a", "2"), ("ack", 1, "-NAK", ""), ("ack", 2, "-NAK", ""), ("pull", "b", "10"),
        ("ack", 1, "-NAK", ""),
    ], {"max_deliver": 2}),
    "maxdeliver nak2": Life([
        *_stored(2), CREATE, ("pull", "a", "2"), ("ack", 1, "-NAK", ""), ("pull", "b", "1"), ("ack", 1, "-NAK", ""),
        _pull("c", batch=1, no_wait=True), ("pull", "d", "1"),
    ], {"max_deliver": 2}),
    "backoff": Life([
        *_stored(1), CREATE, ("pull", "a", "10"), ("wait", 0.35), ("wait", 0.5), ("wait", 0.5), ("wait", 1),
    ], {"backoff": [300000000, 600000000], "max_deliver": 4}),
    "maxack": Life([
        *_stored(5), CREATE, _pull("a", batch=5, expires=2000000000), _pull("b", batch=5, no_wait=True),
        ("ack", 1, "", "r"), ("ack", 2, "-NAK", ""), ("ack", 3, "", ""),
    ], {"max_ack_pending": 2}),
    "rr": Life([
        CREATE, ("pull", "a", "2"), ("pull", "b", "5"), _pull("c", batch=1, expires=SECOND), *_stored(9),
        _pull("a", batch=3, no_wait=True), ("deafen", "b"), ("publish", "s.1", 1),
    ], {}),
    "ackall": Life([
        *_stored(6), CREATE, ("pull", "a", "4"), ("ack", 2, "", "r"), ("ack", 1, "", "r"), ("ack", 3, "-NAK", "r"),
        ("pull", "b", "3"), ("ack", 6, "", "r"), ("ack", 5, "", "r"), ("pull", "c", "1"), ("ack", 3, "", ""),
    ], {"ack_policy": "all"}),
    "none": Life([
        *_stored(4), CREATE, ("pull", "a", "3"), ("ack", 2, "", "r"), ("pull", "b", "3"), ("publish", "s.1", 1),
    ], {"ack_policy": "none"}),
    "filter": Life([
        *_stored(9), CREATE, ("pull", "a", "2"), ("ack", 5, "", ""), ("ack", 2, "", "r"), ("pull", "b", "5"),
        ("publish", "s.0", 1), ("publish", "s.1", 1), ("ack", 8, "", ""),
    ], {"filter_subject": "s.1"}),
    "filters": Life([
        *_stored(9), CREATE, ("pull", "a", "3"), ("delete", 2), ("delete", 8), _pull("b", batch=9, no_wait=True),
        ("ack", 9, "", "r"),
    ], {"filter_subjects": ["s.1", "s.2"]}),
    "lps": Life([
        *_stored(9), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1), ("pull", "b", "5"), ("ack", 7, "", ""),
    ], {"deliver_policy": "last_per_subject", "filter_subject": "s.>"}),
    "last": Life([*_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1)], {"deliver_policy": "last"}),
    "lastf": Life([
        *_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1),
    ], {"deliver_policy": "last", "filter_subject": "s.2"}),
    "lastn": Life([
        *_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.9", 1),
    ], {"deliver_policy": "last", "filter_subject": "s.9"}),
    "new": Life([*_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1)], {"deliver_policy": "new"}),
    "seq": Life([
        *_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1),
    ], {"deliver_policy": "by_start_sequence", "opt_start_seq": 4}),
    "seqfar": Life([
        *_stored(5), CREATE, ("pull", "a", "2"), ("publish", "s.0", 1), ("publish", "s.0", 1), ("publish", "s.0", 1),
        ("publish", "s.0", 1),
    ], {"deliver_policy": "by_start_sequence", "opt_start_seq": 8}),
    "delete": Life([
        *_stored(6), CREATE, ("pull", "a", "4"), ("delete", 2), ("delete", 1), ("delete", 5), ("ack", 3, "-NAK", ""),
        ("delete", 3), ("pull", "b", "3"), ("ack", 4, "", "r"),
    ], {}),
    "purge": Life([
        *_stored(6), CREATE, ("pull", "a", "4"), ("ack", 1, "", ""), ("purge", 3), ("ack", 3, "", "r"), ("purge", 6),
        ("ack", 4, "", "r"), ("pull", "b", "2"), ("purge", 7), ("publish", "s.1", 1),
    ], {}),
    "ackall filter": Life([
        *_stored(9), CREATE, ("pull", "a", "3"), ("ack", 2, "", ""), ("ack", 5, "", "r"), ("ack", 8, "", "r"),
    ], {"ack_policy": "all", "filter_subject": "s.1"}),
    "reset": Life([
        *_stored(6), CREATE, ("pull", "a", "4"), ("ack", 1, "", ""), ("ack", 3, "", ""), ("reset", 0),
        ("pull", "b", "2"), ("reset", 1), ("pull", "c", "2"), ("ack", 1, "", "r"), ("reset", 5), ("ack", 2, "", "r"),
        ("pull", "d", "5"),
    ], {}),
    "bytes": Life([
        *_stored(6, 100), CREATE, _pull("a", batch=5, max_bytes=300), _pull("b", batch=1, max_bytes=150),
        _pull("c", batch=9, max_bytes=10), _pull("d", batch=2, max_bytes=500),
    ], {}),
    "overflow": Life([
        CREATE, _pull("a", batch=2, min_pending=3, **_G), ("publish", "s.1", 1), ("publish", "s.1", 1),
        ("publish", "s.1", 1), _pull("b", batch=1, min_ack_pending=2, **_G), ("publish", "s.1", 1),
        _pull("c", batch=1, **_G), ("publish", "s.1", 1), ("publish", "s.1", 1), _pull("d", batch=1),
        ("pull", "d", "1"),
    ], {"priority_policy": "overflow", "priority_groups": ["g"]}),
    "prio": Life([
        CREATE, _pull("a", batch=3, priority=2, **_G), _pull("b", batch=2, priority=1, **_G),
        _pull("c", batch=2, priority=1, **_G), *_stored(7),
    ], {"priority_policy": "prioritized", "priority_groups": ["g"]}),
    "pinned": Life([
        *_stored(2), CREATE, _pull("a", batch=1, **_G), _pull("b", batch=2, **_G),
        _pull("c", batch=2, id="wrong", **_G), ("unpin", "g"), ("wait", 0.1),
    ], {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": SECOND}),
    "pinned2": Life([
        *_stored(2), CREATE, _pull("a", batch=1, **_G), _pull("b", batch=2, **_G), ("wait", 1.2),
    ], {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": SECOND}),
    "sample": Life([
        *_stored(2), CREATE, ("pull", "a", "2"), ("ack", 1, "", "r"), ("ack", 1, "", "r"), ("ack", 2, "+TERM", ""),
    ], {"sample_freq": "100%"}),
    "hb": Life([
        CREATE, _pull("a", batch=3, expires=SECOND, idle_heartbeat=300000000), ("wait", 0.5), ("publish", "s.1", 1),
        ("wait", 0.7),
    ], {}),
    "maxwaiting": Life([
        CREATE, _pull("a", batch=3, expires=500000000), ("pull", "b", "1"), ("pull", "c", "1"),
        _pull("c", batch=1, expires=SECOND, idle_heartbeat=300000000), ("wait", 0.6), ("pull", "d", "1"),
    ], {"max_waiting": 2}),
    "push": Life([
        *_stored(3), CREATE, ("publish", "s.1", 1), ("ack", 2, "-NAK", "r"), ("ack", 1, "", ""),
    ], {"deliver_subject": "d"}),
    "pushhb": Life([
        *_stored(1), CREATE, ("wait", 0.7), ("publish", "s.1", 1), ("wait", 0.3),
    ], {"deliver_subject": "d", "idle_heartbeat": 500000000}),
    "wq": Life([
        *_stored(4), CREATE, ("pull", "a", "4"), ("ack", 2, "", "r"), ("ack", 1, "+TERM", ""), ("ack", 3, "-NAK", ""),
        ("pull", "b", "1"), ("ack", 3, "", ""), ("ack", 4, "", "r"),
    ], {"retention": "workqueue"}),
    "next": Life([
        *_stored(3), CREATE, ("pull", "a", "1"), ("ack", 1, "+NXT", "n"), ("ack", 2, "+NXT 5", "n"),
        ("ack", 3, "+NXT", "n"), ("ack", 3, "+NXT", ""), ("publish", "s.1", 1),
    ], {}),
    "flow control": Life([
        CREATE, *_stored(2, 600000), ("wait", 0.6), *_stored(3, 600000), ("flow", 2, 2), ("wait", 0.6), ("flow", 4, 4),
        *_stored(1),
    ], {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND // 2, "ack_policy": "none"}),
    "acks by flow control": Life([
        CREATE, *_stored(3), ("wait", 1.1), ("flow", 2, 2), ("wait", 1.1), ("flow", 4, 4), *_stored(2),
    ], {
        "deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND, "ack_policy": "flow_control",
        "ack_wait": 0, "max_ack_pending": 3,
    }),
    "pause": Life([
        *_stored(2), CREATE, _pull("a", batch=5, expires=5 * SECOND), ("pause", 0.5), ("publish", "s.1", 5),
        _pull("b", batch=1, no_wait=True), _pull("b", batch=1, no_wait=True, expires=SECOND), ("wait", 0.6),
        ("pause", -1),
    ], {}),
    "original pace": Life([
        ("publish", "s.1", 5), ("wait", 0.5), ("publish", "s.1", 5), ("wait", 0.3), CREATE, ("wait", 0.3),
        ("wait", 0.4),
    ], {"deliver_subject": "d", "replay_policy": "original"}),
    "original pace, pulled without waiting": Life([
        ("publish", "s.1", 5), ("wait", 0.5), ("publish", "s.1", 5), CREATE,
        ("pull", "a", '{"batch":5,"no_wait":true}'), ("wait", 0.6),
    ], {"replay_policy": "original"}),
    "interest": Life([
        CREATE, *_stored(4), ("pull", "a", "4"), ("ack", 2, "", "r"), ("ack", 1, "+TERM", ""), ("ack", 2, "", ""),
    ], {"retention": "interest"}),
    "no acks, interest": Life([
        CREATE, *_stored(3), ("publish", "s.1", 4),
    ], {"retention": "interest", "ack_policy": "none", "deliver_subject": "d"}),
}  # fmt: skip
