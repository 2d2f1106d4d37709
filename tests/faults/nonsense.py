"""Requests that a broken or hostile client might send: right in most parts, absurd in one or two. Seeded; no IO."""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

_BIG = "9" * 5_000
_SECOND = 10**9
_NUMBERS = (0, 1, -1, 3, 100, 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**30, 60 * _SECOND)
_TEXTS = (
    *("", " ", ">", "*", "a", "s.>", "s.a", "..", "a..b", "é", "\x00", "\ud83d\ude00", "x" * 70_000, "9" * 30, _BIG),
    *("1s", "-1s", "9999999999h", "never", "sub", "all", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"),
    *("10000-01-01T00:00:00Z", "2020-02-30T00:00:00Z", "{{wildcard(1)}}", "$1", "{{partition(3,1)}}", "S", "W"),
    *(
        "interest",
        "workqueue",
        "new",
        "memory",
        "none",
        "last",
        "by_start_time",
        "original",
        "overflow",
        "pinned_client",
    ),
    *("@every 1ns", "@every 9999999h", "* * * * * *", "0 0 30 2 * *", "Europe/Berlin", "create", "100%", "-5%"),
    *("$JS.API.>", "$SYS.>", "_INBOX.x", "\r\n", "a b", "$JS.ACK.>"),
)
_TIMES = ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z")
_STREAM: dict[str, tuple[Any, ...]] = {
    "retention": ("limits", "interest", "workqueue"),
    "discard": ("old", "new"),
    "storage": ("file", "memory"),
    "max_msgs": (-1, 5, 100),
    "max_msgs_per_subject": (-1, 1, 3),
    "max_age": (0, _SECOND, 10 * _SECOND),
    "max_bytes": (-1, 1_000, 10**6),
    "max_msg_size": (-1, 10, 1_000),
    "duplicate_window": (0, _SECOND, 10**8),
    "first_seq": (0, 1, 100, 2**63),
    "subject_transform": ({"src": "s.>", "dest": "t.>"}, {"src": "s.*", "dest": "s.{{wildcard(1)}}"}),
    "republish": ({"src": ">", "dest": "rp.>"}, {"src": "s.>", "dest": "rq.>", "headers_only": True}),
    "sources": ([{"name": "S"}], [{"name": "S", "filter_subject": "s.a"}], [{"name": "S", "opt_start_seq": 2**64 - 1}]),
    "mirror": ({"name": "S"},),
    "consumer_limits": ({"max_ack_pending": 10, "inactive_threshold": 10 * _SECOND},),
    "subject_delete_marker_ttl": (_SECOND,),
    "metadata": ({"a": "b"},),
    **dict.fromkeys(
        ("allow_direct", "mirror_direct", "deny_delete", "discard_new_per_subject", "allow_rollup_hdrs"), (True, False)
    ),
    **dict.fromkeys(
        ("allow_msg_ttl", "allow_msg_counter", "allow_atomic", "allow_batched", "allow_msg_schedules"), (True,)
    ),
}
_CONSUMER: dict[str, tuple[Any, ...]] = {
    "deliver_policy": ("all", "last", "new", "last_per_subject", "by_start_sequence", "by_start_time"),
    "opt_start_seq": (1, 5, 2**40, 2**64 - 1),
    "opt_start_time": _TIMES,
    "ack_policy": ("none", "all", "explicit"),
    "ack_wait": (10**8, _SECOND),
    "max_deliver": (-1, 1, 2),
    "backoff": ([10**8, _SECOND],),
    "filter_subject": ("s.a", "s.>"),
    "filter_subjects": (["s.a", "s.b"],),
    "replay_policy": ("instant", "original"),
    "rate_limit_bps": (1_000, 10**9),
    "sample_freq": ("100%", "50"),
    "max_waiting": (1, 5),
    "max_ack_pending": (-1, 1, 5),
    "idle_heartbeat": (10**8, _SECOND),
    "inactive_threshold": (10**8, _SECOND, 10 * _SECOND),
    "priority_groups": (["g"],),
    "priority_policy": ("overflow", "pinned_client", "prioritized"),
    "priority_timeout": (_SECOND,),
    "deliver_subject": ("nonsense.a", "nonsense.b"),
    "deliver_group": ("q",),
    "pause_until": _TIMES,
    **dict.fromkeys(("flow_control", "headers_only", "mem_storage"), (True,)),
}
_REQUEST = (
    *("silt_as_of", "silt_from_seq", "silt_no_erase", "force", "seqs", "streams", "after", "from", "to", "before"),
    *("seq", "last_by_subj", "next_by_subj", "multi_last", "up_to_seq", "up_to_time", "start_time", "batch"),
    *("max_bytes", "no_erase", "filter", "keep", "offset", "subject", "subjects_filter", "deleted_details", "group"),
    *("pause_until", "expires", "no_wait", "idle_heartbeat", "min_pending", "min_ack_pending", "id", "priority"),
)
_FIELDS = (*_STREAM, *_CONSUMER, *_REQUEST)
_HEADERS = (
    *("Msg-Id", "Expected-Stream", "Expected-Last-Msg-Id", "Expected-Last-Sequence", "Rollup", "TTL", "Incr"),
    *("Expected-Last-Subject-Sequence", "Expected-Last-Subject-Sequence-Subject", "Counter-Sources", "Stream-Source"),
    *("Batch-Id", "Batch-Sequence", "Batch-Commit", "Schedule", "Schedule-Target", "Schedule-Source", "Schedule-TTL"),
    *("Schedule-Time-Zone", "Required-Api-Level", "Pin-Id", "Subject", "Sequence", "Marker-Reason"),
)
_HEADER_TEXTS = ("1", "2", "5s", "sub", "all", "b1", "eob", "@every 1s", "s.t", '{"S":{"s.a":"5"}}')
_ACKS = (
    *(b"", b"+ACK", b"-NAK", b"+WPI", b"+NXT", b"+NXT 2", b"+TERM why", b"-NAK 5s", b"-NAK " + _BIG.encode()),
    *(b'-NAK {"delay": 100000000}', b'-NAK {"delay": %b}' % _BIG.encode(), b"+NXT " + b"[" * 3_000, b"\xff"),
)
_PAYLOADS = (b"", b"x", b"y" * 5_000, b'{"val":"5"}', b'{"val":"%b"}' % _BIG.encode(), b"[" * 30_000)
_BREAKS = (b"[", b"{", b"}", b"\xff", b"\x00", _BIG.encode(), b"[" * 2_000, b'"', b",", b"\\u00")
_VERBS = (
    *("STREAM.INFO.{0}", "STREAM.LIST", "STREAM.NAMES", "STREAM.PURGE.{0}", "STREAM.MSG.GET.{0}", "INFO"),
    *("STREAM.MSG.DELETE.{0}", "STREAM.DELETE.{0}", "STREAM.SNAPSHOT.{0}", "STREAM.RESTORE.{0}", "CONSUMER.LIST.{0}"),
    *("CONSUMER.NAMES.{0}", "CONSUMER.INFO.{0}.{1}", "CONSUMER.DELETE.{0}.{1}", "CONSUMER.PAUSE.{0}.{1}"),
    *("CONSUMER.RESET.{0}.{1}", "CONSUMER.UNPIN.{0}.{1}", "DIRECT.GET.{0}", "DIRECT.GET.{0}.s.a", "DIRECT.GET.{0}.s.>"),
)


_POINTS = (
    *(1, 3, 5, 100, 2**63 - 1, 0, -1),
    *("1s", "15m", "cut:c1", "cut:x", "cut:", "2026-01-01T00:00:00Z", "never"),
)
_PAST: dict[str, dict[str, tuple[Any, ...]]] = {
    "STREAM.BRANCH.{0}": {
        "name": ("B", "B2", "S", "x"),
        "silt_as_of": _POINTS,
        "consumers": (True, False),
        "config": ({"subjects": ["b.>"]}, {"max_msgs": 2}, {"sources": [{"name": "S"}]}, {"name": "M"}),
    },
    "STREAM.REWIND.{0}": {"silt_as_of": _POINTS, "force": (True, False)},
    "STREAM.UNDELETE.{0}": {
        "silt_as_of": _POINTS,
        "seqs": (["1"], ["1-3", "5"], ["3-1"], ["1-18446744073709551615"], ["-"], [_BIG]),
        "filter": ("s.>", "s.a", ">", "s.*.b"),
    },
    "STREAM.MULTI_LAST": {
        "streams": ({"S": ["s.>"]}, {"S": None, "W": [">"]}, {"X": ["s.a"] * 2_000}, {}, {"S": []}),
        "after": ({"stream": "S", "seq": 1}, {"stream": "", "seq": 2**64 - 1}),
        "silt_as_of": _POINTS,
    },
    "STREAM.DIFF.{0}": {"from": _POINTS, "to": _POINTS, "filter": ("s.>", "s.a"), "offset": (0, 1, 2**40)},
    "STREAM.VERSIONS.{0}": {"before": (0, 1, 2**63, 2**64 - 1), "silt_as_of": _POINTS},
    "STREAM.HISTORY.{0}": {},
    "STREAM.INFO.{0}": {"silt_as_of": _POINTS, "subjects_filter": (">", "s.a")},
    "STREAM.MSG.GET.{0}": {"silt_as_of": _POINTS, "seq": (1, 3), "last_by_subj": ("s.a", "s.>")},
    "DIRECT.GET.{0}": {"silt_as_of": _POINTS, "seq": (1, 3), "multi_last": (["s.>"], [">"])},
    "STREAM.PURGE.{0}": {"silt_no_erase": (True,), "keep": (1, 3), "filter": ("s.a",)},
    "STREAM.SNAPSHOT.{0}": {
        "deliver_subject": ("nonsense.backup", "s.a"),
        "silt_as_of": _POINTS,
        "silt_from_seq": (1, 5, 2**63, 2**64 - 1),
        "chunk_size": (1, 1_024),
        "window_size": (1, 2_048),
    },
    "CONSUMER.RESTORE.{0}.{1}": {
        "config": ({"durable_name": "c1", "ack_policy": "explicit"}, {"name": "x"}),
        "state": (
            {"delivered": {"consumer_seq": 2, "stream_seq": 2}, "ack_floor": {"consumer_seq": 1, "stream_seq": 1}},
            {"delivered": {"consumer_seq": 2**64 - 1, "stream_seq": 2**64 - 1}, "pending": {"x": 1}},
        ),
    },
    "CUT.CREATE.{1}": {},
    "CUT.DELETE.{1}": {},
    "CUT.LIST": {"offset": (0, 1, 2**40)},
    "SETTLING": {},
}
"""Silt's own requests, and those that it adds fields to: what they are meant to have."""


class Request(NamedTuple):
    """What to publish; ``reply`` is the reply subject's end, empty for none at all."""

    subject: str
    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()
    reply: str = "r"


class Nonsense:
    """An endless choice of requests to streams of a few names, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.acks: list[str] = []
        """Ack subjects of messages that were delivered, for the caller to put in."""
        self._kinds: tuple[tuple[int, Callable[[str, str], Request]], ...] = (
            *((15, self._stream), (9, self._consumer), (20, self._other), (10, self._pull), (12, self._ack)),
            *((34, self._message), (12, self._past)),
        )

    def request(self) -> Request:
        """The next one."""
        [make] = self._dice.choices([kind for _, kind in self._kinds], [weight for weight, _ in self._kinds])
        made = make(self._dice.choice("SWMCTXZ"), self._dice.choice(("c1", "c2", "x")))
        chance = self._dice.random()
        if chance < 0.03:
            return made._replace(reply="")
        if chance < 0.1:
            flow, seq, end = self._number(), self._number(), self._dice.choice("012349")
            return made._replace(reply=f"u.{flow[:20]}.{self._dice.choice(('ok', 'fail', 'x'))}.{seq[:20]}.{end}.$FI")
        return made

    def _stream(self, stream: str, _: str) -> Request:
        taken = [f"{stream.lower()}.>"], ["s.>"], [f"{stream.lower()}.a", f"{stream.lower()}.*.b"]
        config = {"name": stream, "subjects": self._dice.choice(taken), **self._some(_STREAM)}
        if "mirror" in config:
            del config["subjects"]
        return Request(f"$JS.API.STREAM.{self._dice.choice(('CREATE', 'UPDATE'))}.{stream}", self._json(config))

    def _consumer(self, stream: str, name: str) -> Request:
        config = {"name": name, "ack_policy": "explicit", **self._some(_CONSUMER)}
        body = {"stream_name": stream, "config": config, "action": self._dice.choice(("create", "update", ""))}
        ends = (f"CREATE.{stream}.{name}", f"CREATE.{stream}.{name}.s.a", f"CREATE.{stream}")
        if self._dice.random() < 0.3:
            config["durable_name"] = name
            ends = (f"DURABLE.CREATE.{stream}.{name}", f"CREATE.{stream}.{name}")
        return Request(f"$JS.API.CONSUMER.{self._dice.choice(ends)}", self._json(body))

    def _other(self, stream: str, name: str) -> Request:
        levels = (("Nats-Required-Api-Level", self._number()),) if self._dice.random() < 0.1 else ()
        return Request("$JS.API." + self._dice.choice(_VERBS).format(stream, name), self._json(self._fields()), levels)

    def _past(self, stream: str, name: str) -> Request:
        verb = self._dice.choice(sorted(_PAST))
        body = {field: self._dice.choice(meant) for field, meant in _PAST[verb].items() if self._dice.random() < 0.8}
        if body and self._dice.random() < 0.3:
            body[self._dice.choice(sorted(body))] = self._value()
        if self._dice.random() < 0.1:
            body |= self._fields()
        payload = b"" if not body and self._dice.random() < 0.7 else self._json(body)
        return Request("$JS.API." + verb.format(stream, name), payload)

    def _pull(self, stream: str, name: str) -> Request:
        right = {"batch": self._dice.choice((1, 3, 10)), "expires": self._dice.choice((10**8, _SECOND)), "group": "g"}
        body = self._dice.choice((b"", self._number().encode(), self._json(right), self._json(right | self._fields())))
        return Request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body)

    def _ack(self, stream: str, name: str) -> Request:
        body = self._dice.choice(_ACKS)
        if self.acks and self._dice.random() < 0.5:
            return Request(self._dice.choice(self.acks), body)
        tokens = [self._number()[:40] or "0" for _ in range(self._dice.choice((3, 5, 6, 9)))]
        return Request(".".join((self._dice.choice(("$JS.ACK", "$JS.FC")), stream, name, *tokens)), body)

    def _message(self, stream: str, _: str) -> Request:
        names = self._dice.sample(_HEADERS, self._dice.choice((0, 0, 1, 1, 2, 3)))
        headers = tuple((f"Nats-{name}", self._header()) for name in names)
        end = self._dice.choice(("a", "b", "c.b", "z" * 200))
        return Request(f"{stream.lower()}.{end}", self._dice.choice(_PAYLOADS), headers)

    def _header(self) -> str:
        text = self._dice.choice((self._number(), str(self._value())[:8_000], self._dice.choice(_HEADER_TEXTS)))
        return "".join(char for char in text if char >= " ").encode(errors="replace").decode()

    def _number(self) -> str:
        return self._dice.choice((*map(str, _NUMBERS), "x", "", "007", _BIG))

    def _some(self, fields: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        """A few fields as they are meant, and mostly none that is not."""
        chosen = {name: self._dice.choice(fields[name]) for name in self._dice.sample(sorted(fields), self._few())}
        if self._dice.random() < 0.4:
            chosen[self._dice.choice(sorted(fields))] = self._value()
        return chosen

    def _fields(self) -> dict[str, Any]:
        return {self._dice.choice(_REQUEST): self._value() for _ in range(self._few())}

    def _few(self) -> int:
        return self._dice.randrange(6)

    def _value(self, depth: int = 0) -> Any:
        chance = self._dice.random()
        if chance < 0.85:
            return self._dice.choice(_NUMBERS if chance < 0.35 else _TEXTS)
        if chance < 0.92 or depth > 3:
            return self._dice.choice((None, True, False, 1.5, -0.5, 1e300))
        if chance < 0.96:
            return [self._value(depth + 1) for _ in range(self._few())]
        return {self._dice.choice(_FIELDS): self._value(depth + 1) for _ in range(self._few())}

    def _json(self, value: Any) -> bytes:
        """JSON, now and then with something in it that breaks it."""
        text = json.dumps(value, ensure_ascii=self._dice.random() < 0.5).encode(errors="surrogatepass")
        if self._dice.random() < 0.94:
            return text
        at = self._dice.randrange(len(text) + 1)
        return text[:at] + self._dice.choice(_BREAKS) + text[at + self._dice.randrange(3) :]
