"""A consumer as a backup has it: nats-server's JSON of configuration and stored state. Pure."""

import json
from dataclasses import replace
from typing import Any, Final

from api.jetstream.consumer_info import config_json
from api.jetstream.request_shapes import CONSUMER_CONFIG
from consumers.config import consumer_config_rules, consumer_create_rules, past_point
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_create_rules import Company
from consumers.machine.consumer_state import ConsumerState
from delta_store.archive.archived import ArchivedConsumer, read_object
from delta_store.archive.bad_archive import BadArchive
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect.json_shapes import Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.json_writer import write_json

_INT63: Final = (1 << 63) - 1
_OPEN_CONFIG: Final = Struct("ConsumerConfig", CONSUMER_CONFIG.fields, is_open=True)


def archived(config: MachineConfig, state: ConsumerState, *, last_seq: int) -> bytes:
    """Return the content of a consumer's entry in the backup of a stream that ends with ``last_seq``."""
    pending = {
        str(seq): {"Sequence": cseq, "Timestamp": ts_ns}
        for seq, (cseq, ts_ns) in state.pending.items()
        if seq <= last_seq
    }
    redelivered = {str(seq): count for seq, count in state.redelivered.items() if seq <= last_seq}
    shown = {
        "delivered": _shown_place(state.delivered, last_seq),
        "ack_floor": _shown_place(state.ack_floor, last_seq),
        **({"pending": pending} if pending else {}),
        **({"redelivered": redelivered} if redelivered else {}),
    }
    return write_json({"config": config_json(config, dynamic=False), "state": shown})


def read_archived(
    consumer: ArchivedConsumer, stream: StreamConfig, company: Company
) -> tuple[MachineConfig, ConsumerState]:
    """Return the configuration, checked as that of a new consumer, and the state. Raises :class:`BadArchive`."""
    name = consumer.name
    shown = read_object(consumer.content, f'failed to decode consumer "{name}" state')
    for part in ("config", "state"):
        if not isinstance(shown.get(part), dict):
            raise BadArchive(f'consumer "{name}" is missing {part}')
    try:
        config = _config(shown["config"], name, stream, company)
    except (ApiRefusal, JsonError) as error:
        raise BadArchive(f'failed to add consumer "{name}": {error}') from None
    try:
        return config, _state(shown["state"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadArchive(f'failed to set consumer "{name}" state: it is impossible') from None


def _config(said: dict[str, Any], name: str, stream: StreamConfig, company: Company) -> MachineConfig:
    asked = unmarshal(json.dumps(said).encode(), _OPEN_CONFIG)
    config = consumer_config_rules.drafted(asked)
    if past_point.POINT_KEY in config.metadata:
        raise api_errors.consumer_create_failed("it reads a past point, which no backup has")
    config = consumer_create_rules.named_by_subject(replace(config, name=name), name, config.filter_subject)
    config = consumer_config_rules.with_required_level(config)
    config = consumer_config_rules.with_defaults(config, stream)
    consumer_config_rules.check(config, stream, starts_at_time="opt_start_time" in asked)
    consumer_create_rules.check_new(config, stream, company)
    return consumer_create_rules.with_inactivity(config, durable=config.is_durable)


def _state(said: dict[str, Any]) -> ConsumerState:
    delivered, floor = _place(said.get("delivered", {})), _place(said.get("ack_floor", {}))
    pending = {
        _number(int(seq)): (_number(one["Sequence"]), _number(one["Timestamp"]))
        for seq, one in (said.get("pending") or {}).items()
    }
    redelivered = {_number(int(seq)): _number(count) for seq, count in (said.get("redelivered") or {}).items()}
    if floor[0] > delivered[0] or any(not floor[1] < seq <= delivered[1] for seq in pending):
        raise ValueError
    return ConsumerState(
        delivered=delivered, ack_floor=floor, pending=dict(sorted(pending.items())), redelivered=redelivered
    )


def _place(said: dict[str, Any]) -> tuple[int, int]:
    return _number(said.get("consumer_seq", 0)), _number(said.get("stream_seq", 0))


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _INT63:
        raise ValueError
    return value


def _shown_place(place: tuple[int, int], last_seq: int) -> dict[str, int]:
    return {"consumer_seq": place[0], "stream_seq": min(place[1], last_seq)}
