"""What one side answered, step by step, in a form that two servers can be compared by.

What legitimately differs between two runs is replaced by a placeholder that still says that it was well-formed
(``<time>``, ``<server>``, …); everything else stays and is compared exactly: status text, header order, JSON key sets,
error texts, numbers, and of JSON also the order of its keys and how it is escaped.
"""

import json
import re
from base64 import b64decode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.wire import Reply

ZERO_TIME = "0001-01-01T00:00:00Z"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z")
_TIME_KEYS = frozenset({"created", "ts", "first_ts", "last_ts", "time", "last_active", "pinned_ts", "timestamp"})
_DURATION_KEYS = frozenset({"pause_remaining", "ack_time"})
_ID_KEYS = frozenset({"id", "pinned_client_id", "pinned_id"})
ID = re.compile(r"[A-Za-z0-9]{22}")
_GENERATED = re.compile(r"[0-9A-Za-z]{8}")
_SOURCE = re.compile(r"(Nats-Stream-Source: \S+ \d+ [^\r]*) [0-9A-Za-z]{8}(?=\r|$)")
_ESCAPED = re.compile("[<>&\u2028\u2029]")
_PUB_ACK = re.compile(rb'\{("error"|"stream")')


def time_placeholder(value: str) -> str:
    """``<time>`` for a UTC RFC 3339 time without trailing zeros, the value itself for anything else."""
    return "<time>" if value != ZERO_TIME and _TIME.fullmatch(value) else value


def normal_json(value: Any, key: str = "") -> Any:
    """The JSON value with times, server names and the server's version replaced."""
    if isinstance(value, dict):
        if "stream_name" in value and "name" not in value.get("config", value) and _GENERATED.fullmatch(value["name"]):
            value = value | {"name": "<generated>"}
        if value.keys() >= {"level", "total", "errors"}:
            # Whatever other scenarios asked counts too; the one about counting compares differences.
            value = value | {"total": "<count>", "errors": "<count>"}
        return {name: normal_json(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [normal_json(item, key) for item in value]
    if key == "consumers" and isinstance(value, str) and _GENERATED.fullmatch(value):
        return "<generated>"
    if isinstance(value, str):
        return _normal_text(value, key)
    if isinstance(value, int) and ((key in _DURATION_KEYS and value > 0) or (key == "active" and value >= 0)):
        return "<duration>"
    return value


def _normal_text(value: str, key: str) -> str:
    if key in _TIME_KEYS or (key == "pause_until" and _is_near(value)):
        return time_placeholder(value)
    if key in _ID_KEYS and ID.fullmatch(value):
        return "<id>"
    if key == "hdrs":
        return _SOURCE.sub(r"\1 <identity>", b64decode(value).decode("latin-1"))
    return {"leader": "<server>", "_nats.ver": "<version>"}.get(key, value)


def _is_near(time: str) -> bool:
    """Whether a time was reckoned from now; one that a scenario names stays."""
    try:
        return abs(datetime.fromisoformat(time) - datetime.now(UTC)) < timedelta(hours=1)
    except (ValueError, TypeError):
        return False


def normal_headers(reply: Reply) -> list[str]:
    """Header lines in order, with time stamps and the identities of streams replaced."""
    return [_SOURCE.sub(r"\1 <identity>", f"{key}: {_normal_header(key, value)}") for key, value in reply.headers]


def _normal_header(key: str, value: str) -> str:
    if key == "Nats-Stream-Identity" and _GENERATED.fullmatch(value):
        return "<identity>"
    return time_placeholder(value) if key == "Nats-Time-Stamp" else value


def _as_go_writes(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def normal_reply(reply: Reply) -> dict[str, Any]:
    """One reply as plain data; publish acknowledgements stay text, for they are compared to the byte."""
    seen: dict[str, Any] = {}
    if reply.header:
        seen["status"] = reply.status
        seen["headers"] = normal_headers(reply)
    payload = reply.payload
    if payload.startswith(b"{") and not _PUB_ACK.match(payload):
        try:
            value = json.loads(payload)
        except ValueError:
            seen["payload"] = payload.decode("latin-1")
        else:
            seen["json"] = normal_json(value)
            seen["written"] = "as Go does" if payload == _as_go_writes(value) else "otherwise"
    else:
        seen["payload"] = payload.decode("latin-1")
    return seen


@dataclass(slots=True)
class Step:
    """One request and its replies."""

    label: str
    replies: list[dict[str, Any]]


@dataclass(slots=True)
class Transcript:
    """All steps of a scenario on one side."""

    steps: list[Step] = field(default_factory=list)
    _labels: set[str] = field(default_factory=set)

    def add(self, label: str, replies: list[Reply]) -> None:
        """Record the replies to one request; labels are unique within a scenario."""
        assert label not in self._labels, f"step label {label!r} used twice"
        self._labels.add(label)
        self.steps.append(Step(label, [normal_reply(reply) for reply in replies]))


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Where two values differ, one line each: ``path: expected → actual``; empty when they are equal."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for key in [*expected, *(key for key in actual if key not in expected)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in actual:
                found.append(f"{where}: missing, nats-server has {expected[key]!r}")
            elif key not in expected:
                found.append(f"{where}: {actual[key]!r}, nats-server has no such key")
            else:
                found += differences(expected[key], actual[key], where)
        if not found and [*expected] != [*actual]:
            found.append(f"{path}: the order {[*expected]} → {[*actual]}")
        return found
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{path}[{index}]")]
    return [] if expected == actual and type(expected) is type(actual) else [f"{path}: {expected!r} → {actual!r}"]
