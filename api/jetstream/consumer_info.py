"""A consumer's info object: nats-server's fields in its order, empty ones left out as there."""

from collections.abc import Mapping
from typing import Any

from consumers.config.consumer_config import MachineConfig, shown_time
from consumers.config.consumer_config_rules import required_level
from consumers.config.consumer_create_rules import is_generated
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.config import server_metadata
from delta_store.config.field_tags import show_fields
from delta_store.dialect.times import format_time

Json = dict[str, Any]


def name_seed(stream: str, created_ns: int) -> str:
    """Return the text that a generated consumer name is computed from."""
    return f"{stream} {created_ns}"


def config_json(config: MachineConfig, *, dynamic: bool, with_name: bool = True) -> Json:
    """Return the ``config`` object; ``dynamic`` adds the server's version and level, as replies on one consumer do."""
    metadata = server_metadata.recorded(config.metadata, required_level(config))
    instead: Json = {"metadata": server_metadata.shown(metadata, dynamic=dynamic)}
    if config.deliver_policy == "by_start_time":
        instead["opt_start_time"] = shown_time(config.opt_start_time)
    if not with_name:
        instead["name"] = ""
    return show_fields(config, **instead)


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
