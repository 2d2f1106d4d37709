"""Bodies of requests for messages, read as nats-server reads them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from conf.limits import CONSUMER_LONG_WAIT_SECONDS
from consumers.config.consumer_config import ConsumerConfig
from delta_store.config.api_level import level_refused

_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_INT_MAX: Final = (1 << 63) - 1
PRIORITY_LAST: Final = (1 << 31) - 1
_KINDS: Final[Mapping[str, Any]] = {
    "expires": int, "batch": int, "max_bytes": int, "no_wait": bool, "idle_heartbeat": int, "group": str,
    "min_pending": int, "min_ack_pending": int, "id": str, "priority": int,
}  # fmt: skip
_GO_TYPES: Final = {
    "expires": "time.Duration", "idle_heartbeat": "time.Duration", "no_wait": "bool", "group": "string", "id": "string",
    "min_pending": "int64", "min_ack_pending": "int64",
}  # fmt: skip

_LONG_WAIT_NS: Final = CONSUMER_LONG_WAIT_SECONDS * 1_000_000_000
_REPEATED_BYTES: Final = 256
"""Longest body that is remembered."""
_SYNTAX: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Expecting value", "looking for beginning of value"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string"),
    ("Invalid \\", "in string escape code"),
)
"""How Python begins to say it, and how Go goes on."""


class BadPull(Exception):
    """The request cannot be taken: the status to answer with."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class PullSpec:
    """What a request asks for; durations in ns, 0 for none."""

    expires: int = 0
    batch: int = 1
    max_bytes: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0
    is_json: bool = False
    """Only JSON requests can belong to a priority group."""

    @property
    def waits_long(self) -> bool:
        """Whether who asks relies on being told when something happens to the request."""
        return not self.no_wait and not 0 < self.expires < _LONG_WAIT_NS


def parse_pull(body: bytes) -> PullSpec:
    """Read a body: nothing, a number or JSON; anything else counts as nothing. Raises :class:`BadPull`."""
    return _parse_again(body) if len(body) <= _REPEATED_BYTES else _parse(body)


def _parse(body: bytes) -> PullSpec:
    text = body.strip()
    if not text.startswith(b"{"):
        number = int(text) if _NUMBER.fullmatch(text) else 1
        return PullSpec(batch=number if abs(number) <= _INT_MAX else 1, priority=PRIORITY_LAST)
    try:
        shown = json.loads(text.decode(errors="replace"), parse_float=_Fraction, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise BadPull(400, f"Bad Request - {_syntax(error)}") from None
    except (ValueError, RecursionError):
        raise BadPull(400, "Bad Request - invalid JSON") from None
    values: dict[str, Any] = {"batch": 0, "is_json": True}
    for key, value in shown.items():
        name = key.lower()
        if name in _KINDS and value is not None:
            values[name] = _checked(name, value)
    spec = PullSpec(**values)
    if spec.idle_heartbeat > 0 and 2 * spec.idle_heartbeat > spec.expires:
        raise BadPull(400, "Bad Request - heartbeat value too large")
    return spec


_parse_again = lru_cache(maxsize=256)(_parse)
"""A client asks again and again in the same words."""


def check_level(header: bytes) -> None:
    """Refuse a request that demands another API level. Raises :class:`BadPull`."""
    if level_refused(header):
        raise BadPull(412, "Required Api Level")


def check_mode(config: ConsumerConfig) -> None:
    """Refuse requests to a push consumer. Raises :class:`BadPull`."""
    if config.is_push:
        raise BadPull(409, "Consumer is push based")


def check_limits(spec: PullSpec, config: ConsumerConfig) -> None:
    """Refuse what the consumer's configuration does not allow. Raises :class:`BadPull`."""
    if 0 < config.max_batch < spec.batch:
        raise BadPull(409, f"Exceeded MaxRequestBatch of {config.max_batch}")
    if 0 < config.max_expires < spec.expires:
        raise BadPull(409, f"Exceeded MaxRequestExpires of {go_duration(config.max_expires)}")
    if 0 < config.max_bytes < spec.max_bytes:
        raise BadPull(409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")
    if spec.is_json:
        _check_priority(spec, config)


def _check_priority(spec: PullSpec, config: ConsumerConfig) -> None:
    policy = config.priority_policy
    if (spec.min_pending or spec.min_ack_pending) and policy != "overflow":
        raise BadPull(400, "Bad Request - Not a Overflow Priority consumer")
    if spec.id and policy != "pinned_client":
        raise BadPull(400, "Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= spec.priority <= 9:
        raise BadPull(400, "Bad Request - Priority must be between 0 and 9")
    if policy != "none" and not spec.group:
        raise BadPull(400, "Bad Request - Priority Group missing")
    if policy != "none" and spec.group not in config.priority_groups:
        raise BadPull(400, "Bad Request - Invalid Priority Group")


def go_duration(ns: int) -> str:
    """A positive duration as Go prints it."""
    for unit, size in (("ns", 1_000), ("µs", 1_000_000), ("ms", 1_000_000_000)):
        if ns < size:
            return _decimal(ns, size // 1000) + unit
    minutes, rest = divmod(ns, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, 1_000_000_000) + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + seconds


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{str(rest).zfill(len(str(unit)) - 1)}".rstrip("0") if rest else str(whole)


class _Fraction(str):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ()


_NAMES: Final[Mapping[type, str]] = {str: "string", list: "array", dict: "object"}


def _checked(name: str, value: Any) -> Any:
    kind = _KINDS[name]
    if type(value) is kind and (kind is not int or -_INT_MAX <= value <= _INT_MAX):
        return value
    if isinstance(value, bool):
        shown = "bool"
    elif isinstance(value, int | _Fraction):
        shown = f"number {value}" if kind is int else "number"
    else:
        shown = _NAMES.get(type(value), "value")
    go_type = _GO_TYPES.get(name, "int")
    raise BadPull(400, f"Bad Request - json: cannot unmarshal {shown} into Go struct field .{name} of type {go_type}")


def _refuse(name: str) -> Any:
    raise json.JSONDecodeError("Expecting value", name, 0)


def _syntax(error: json.JSONDecodeError) -> str:
    """What Go says about a broken text, near enough."""
    rest = error.doc[error.pos :].lstrip(" \t\r\n")
    where = next((go for python, go in _SYNTAX if error.msg.startswith(python)), "in JSON input")
    if not rest or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    char = rest[0] if rest[0].isprintable() else f"\\x{ord(rest[0]):02x}"
    return f"invalid character '{char}' {where}"
