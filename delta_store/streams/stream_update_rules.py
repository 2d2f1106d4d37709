"""Rules for updates of a stream's configuration: nats-server 2.15's, in its order, with its texts."""

from collections.abc import Mapping
from dataclasses import replace

from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal, stream_invalid_config
from delta_store.config.field_tags import check_changes
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ConsumerLimits, Republish
from delta_store.config.subject_transform import BadMapping, SubjectTransform
from delta_store.streams.stream_config_rules import check_replicas
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.typing_terms import check_change, schema_in


def checked_update(old: StreamConfig, new: StreamConfig) -> StreamConfig:
    """Return the configuration after ``old`` is updated to ``new``; refuse changes that are not allowed."""
    check_replicas(new)
    # nats-server checks an update twice, the second time with what the first has filled in.
    if new.allow_msg_counter and new.allow_msg_ttl:
        raise stream_invalid_config("counter stream cannot use message TTLs")
    check_changes(old, new)
    _check_table(old, new)
    if new.republish is not None:
        new = replace(new, republish=_mapped(new.republish))
    if not new.sealed:
        return new
    return replace(new, max_age=0, discard="new", deny_delete=True, deny_purge=True, allow_rollup_hdrs=False)


def _check_table(old: StreamConfig, new: StreamConfig) -> None:
    """Refuse a schema to which the typed table can't go on; both configurations are valid by themselves."""
    before, after = schema_in(old.metadata), schema_in(new.metadata)
    if not before or not after or before == after:
        return
    try:
        check_change(before, after)
    except BadSchema as error:
        raise stream_invalid_config(str(error)) from None


def _mapped(again: Republish) -> Republish:
    """Return what is republished after an update: an empty destination, as a create may have, is every subject."""
    again = again._replace(dest=again.dest or ">")
    try:
        SubjectTransform(again.src, again.dest)
    except BadMapping as error:
        text = f"stream configuration for republish from '{again.src}' to '{again.dest}': {error}"
        raise api_errors.update_failed(text) from None
    return again


def violated_by(old: StreamConfig, new: StreamConfig, limits: Mapping[str, ConsumerLimits]) -> ApiRefusal | None:
    """Return the refusal of a change of ``consumer_limits``, or None; ``limits`` are the consumers' own, by name."""
    before, after = old.consumer_limits, new.consumer_limits
    if not any(limit and limit != was for was, limit in zip(before, after, strict=True)):
        return None
    over = [name for name, its in limits.items() if any(0 < limit < one for limit, one in zip(after, its, strict=True))]
    return api_errors.update_failed(f"change to limits violates consumers: {', '.join(over)}") if over else None
