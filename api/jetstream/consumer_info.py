"""A consumer's info object: nats-server's fields in its order, empty ones left out as there."""

from collections.abc import Mapping
from typing import Any, Final

from api.jetstream.responses import SERVER_VERSION
from conf.limits import API_LEVEL
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import REQUIRED_LEVEL_KEY, required_level
from consumers.config.consumer_create_rules import is_generated
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.dialect.times import format_time
from delta_store.streams.stream_config_rules import LEVEL_KEY, VERSION_KEY

Json = dict[str, Any]

_ORDER: Final = (
    "durable_name",
    "name",
    "description",
    "deliver_policy",
    "opt_start_seq",
    "opt_start_time",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "backoff",
    "filter_subject",
    "filter_subjects",
    "replay_policy",
    "rate_limit_bps",
    "sample_freq",
    "max_waiting",
    "max_ack_pending",
    "flow_control",
    "headers_only",
    "max_batch",
    "max_expires",
    "max_bytes",
    "deliver_subject",
    "deliver_group",
    "idle_heartbeat",
    "inactive_threshold",
    "num_replicas",
    "mem_storage",
    "direct",
    "metadata",
    "pause_until",
    "priority_groups",
    "priority_policy",
    "priority_timeout",
)
_TIMES: Final = ("opt_start_time", "pause_until")
_EARLIEST_NS: Final = -(2**63)


def name_seed(stream: str, created_ns: int) -> str:
    """Return the text that a generated consumer name is computed from."""
    return f"{stream} {created_ns}"


def shown_time(ts_ns: int) -> str:
    """Format a request's time (ns) as in replies; the earliest that 64 bits hold stands for Go's zero time."""
    return format_time(ts_ns if ts_ns > _EARLIEST_NS else None)


def config_json(config: MachineConfig, *, dynamic: bool, with_name: bool = True) -> Json:
    """Return the ``config`` object; ``dynamic`` adds the server's version and level, as replies on one consumer do."""
    shown: Json = {}
    for field in _ORDER:
        value = getattr(config, field)
        if field == "opt_start_time" and config.deliver_policy == "by_start_time":
            shown[field] = shown_time(value)
        elif field == "metadata":
            shown[field] = _metadata(config, dynamic=dynamic)
        elif field == "num_replicas":
            shown[field] = value
        elif not value or (field == "name" and not with_name) or (field == "priority_policy" and value == "none"):
            continue
        elif field in _TIMES:
            shown[field] = shown_time(value)
        else:
            shown[field] = list(value) if isinstance(value, tuple) else value
    return shown


def _metadata(config: MachineConfig, *, dynamic: bool) -> dict[str, str]:
    shown = config.metadata | {REQUIRED_LEVEL_KEY: required_level(config)}
    if dynamic:
        shown |= {VERSION_KEY: SERVER_VERSION, LEVEL_KEY: str(API_LEVEL)}
    return dict(sorted(shown.items()))


def consumer_info(consumer: ConsumerMachine, *, now_ns: int, dynamic: bool = True, push_bound: bool = False) -> Json:
    """Return the info object; ``push_bound`` is for a new consumer, which learns of listeners when it is durable."""
    config = consumer.config
    generated = not config.is_durable and is_generated(
        consumer.name, name_seed(consumer.stream_name, consumer.created_ns)
    )
    shown: Json = {
        "stream_name": consumer.stream_name,
        "name": consumer.name,
        "created": format_time(consumer.created_ns),
        "config": config_json(config, dynamic=dynamic, with_name=not generated),
        "delivered": _sequences(consumer.delivered, consumer.progress.last_delivered_ns),
        "ack_floor": _sequences(consumer.ack_floor, consumer.progress.last_acked_ns),
        "num_ack_pending": consumer.num_ack_pending,
        "num_redelivered": consumer.num_redelivered,
        "num_waiting": consumer.num_waiting,
        "num_pending": consumer.num_pending,
    }
    if consumer.push_bound or push_bound:
        shown["push_bound"] = True
    shown |= paused_json(config.pause_until, now_ns=now_ns)
    shown["ts"] = format_time(now_ns)
    if config.priority_groups:
        shown["priority_groups"] = [_group(consumer)]
    return shown


def paused_json(until_ns: int, *, now_ns: int) -> Json:
    """Return ``paused`` and ``pause_remaining`` (ns) during a pause, else no fields."""
    return {"paused": True, "pause_remaining": until_ns - now_ns} if until_ns > now_ns else {}


def _sequences(place: tuple[int, int], last_ns: int) -> Mapping[str, Any]:
    shown: Json = {"consumer_seq": place[0], "stream_seq": place[1]}
    return shown | {"last_active": format_time(last_ns)} if last_ns else shown


def _group(consumer: ConsumerMachine) -> Json:
    """Return the first priority group, the only one that nats-server shows."""
    shown: Json = {"group": consumer.config.priority_groups[0]}
    if consumer.pin.id:
        shown["pinned_client_id"] = consumer.pin.id
    return shown | {"pinned_ts": format_time(consumer.pin.since_ns or None)}
