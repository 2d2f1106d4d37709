"""Pull requests: their bodies parsed and checked as by nats-server. Pure."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from conf.limits import CONSUMER_LONG_WAIT_SECONDS
from consumers.config.consumer_config import MachineConfig
from delta_store.config.api_level import level_refused
from delta_store.dialect.durations import format_duration
from delta_store.dialect.integers import NotAnInteger, atoi
from delta_store.dialect.json_shapes import DURATION, FLAG, INT, INT64, TEXT, Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError

PRIORITY_LAST: Final = (1 << 31) - 1
_LONG_WAIT_NS: Final = CONSUMER_LONG_WAIT_SECONDS * 1_000_000_000
_REQUEST: Final = Struct(
    "",
    {
        "expires": DURATION,
        "batch": INT,
        "max_bytes": INT,
        "no_wait": FLAG,
        "idle_heartbeat": DURATION,
        "group": TEXT,
        "min_pending": INT64,
        "min_ack_pending": INT64,
        "id": TEXT,
        "priority": INT,
    },
    is_open=True,
)
_REPEATED_BYTES: Final = 256
"""Longest body that is cached."""
_TOLD_CHARS_MAX: Final = 1024
"""A longer error text repeats an endless number of the body, and might not fit into a message."""


class PullRefusal(Exception):
    """A pull is refused with this status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class PullSpec:
    """The fields of a pull; durations in ns, 0 for none."""

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
        """Whether the pull waits so long that its client needs to know of a restart."""
        return not self.no_wait and not 0 < self.expires < _LONG_WAIT_NS


def parse_pull(body: bytes) -> PullSpec:
    """Parse a body: a number or JSON; any other counts as empty. Raises :class:`PullRefusal`."""
    return _parse_again(body) if len(body) <= _REPEATED_BYTES else _parse(body)


def _parse(body: bytes) -> PullSpec:
    text = body.strip()
    if not text.startswith(b"{"):
        return PullSpec(batch=_number(text), priority=PRIORITY_LAST)
    try:
        fields = unmarshal(text, _REQUEST)
    except JsonError as error:
        said = str(error)
        raise PullRefusal(400, f"Bad Request - {said if len(said) <= _TOLD_CHARS_MAX else 'invalid JSON'}") from None
    spec = PullSpec(**{"batch": 0, "is_json": True, **fields})
    if spec.idle_heartbeat > 0 and 2 * spec.idle_heartbeat > spec.expires:
        raise PullRefusal(400, "Bad Request - heartbeat value too large")
    return spec


_parse_again = lru_cache(maxsize=256)(_parse)
"""A client repeats the same body again and again."""


def check_level(header: bytes) -> None:
    """Refuse a pull that requires a higher API level. Raises :class:`PullRefusal`."""
    if level_refused(header):
        raise PullRefusal(412, "Required Api Level")


def check_mode(config: MachineConfig) -> None:
    """Refuse pulls of a push consumer. Raises :class:`PullRefusal`."""
    if config.is_push:
        raise PullRefusal(409, "Consumer is push based")


def check_limits(spec: PullSpec, config: MachineConfig) -> None:
    """Refuse a pull beyond the limits of the consumer's configuration. Raises :class:`PullRefusal`."""
    if 0 < config.max_batch < spec.batch:
        raise PullRefusal(409, f"Exceeded MaxRequestBatch of {config.max_batch}")
    if 0 < config.max_expires < spec.expires:
        raise PullRefusal(409, f"Exceeded MaxRequestExpires of {format_duration(config.max_expires)}")
    if 0 < config.max_bytes < spec.max_bytes:
        raise PullRefusal(409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}")
    if spec.is_json:
        _check_priority(spec, config)


def _check_priority(spec: PullSpec, config: MachineConfig) -> None:
    policy = config.priority_policy
    if (spec.min_pending or spec.min_ack_pending) and policy != "overflow":
        raise PullRefusal(400, "Bad Request - Not a Overflow Priority consumer")
    if spec.id and policy != "pinned_client":
        raise PullRefusal(400, "Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= spec.priority <= 9:
        raise PullRefusal(400, "Bad Request - Priority must be between 0 and 9")
    if policy != "none" and not spec.group:
        raise PullRefusal(400, "Bad Request - Priority Group missing")
    if policy != "none" and spec.group not in config.priority_groups:
        raise PullRefusal(400, "Bad Request - Invalid Priority Group")


def _number(text: bytes) -> int:
    try:
        return atoi(text.decode(errors="replace"))
    except NotAnInteger:
        return 1
