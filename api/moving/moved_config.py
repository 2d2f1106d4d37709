"""Configurations of streams and consumers on their way from another JetStream. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from delta_store.archive.archived import ArchivedConsumer, read_object

Json = dict[str, Any]
_NOT_MOVED: Final = ("placement", "sources")
"""Where nodes are, is another server's affair; a source would copy again what has come with the stream."""
_ORIGIN_DECIDES: Final = frozenset(
    (
        "subjects",
        "first_seq",
        "subject_transform",
        "republish",
        "mirror_direct",
        "discard_new_per_subject",
        "deny_delete",
        "deny_purge",
        "subject_delete_marker_ttl",
        "allow_atomic",
        "allow_batched",
    )
)
_NOT_FOLLOWED: Final = {
    "mirror": "it is a mirror itself: move what it mirrors",
    "sources": "it has sources: their positions would be lost",
    "sealed": "it is sealed, so nothing new comes: import it as it is",
    "allow_msg_counter": "it counts (allow_msg_counter), which no mirror does",
    "allow_msg_schedules": "it has schedules (allow_msg_schedules), which no mirror fires",
}


class OriginPrefixes(NamedTuple):
    """The ``external`` of a mirror: by what subjects its origin is reached."""

    api: str
    deliver: str = ""


def moved_config(config: Mapping[str, Any]) -> Json:
    """Return a stream's configuration for its new server, which stores it once."""
    return {key: value for key, value in config.items() if key not in _NOT_MOVED} | {"num_replicas": 1}


def following_config(config: Mapping[str, Any], origin: OriginPrefixes) -> Json:
    """Return the configuration of a mirror that follows the stream until it takes its place.

    What the origin decides for both is left out, so that the mirror takes whatever comes from there.
    """
    moved = {key: value for key, value in moved_config(config).items() if key not in _ORIGIN_DECIDES}
    if moved.get("discard") == "new":
        moved |= {"discard": "old", "max_msgs": -1, "max_bytes": -1}
    return moved | {"mirror": {"name": config["name"], "external": origin._asdict()}}


def not_followed(config: Mapping[str, Any]) -> str:
    """Return why a stream can't be followed, empty where it can."""
    if config.get("retention", "limits") != "limits":
        return "it is a work queue or an interest stream: a mirror would take messages away from the consumers there"
    return next((words for field, words in _NOT_FOLLOWED.items() if config.get(field)), "")


def moved_consumer(consumer: ArchivedConsumer, *, last_seq: int) -> ArchivedConsumer | None:
    """Return a consumer with its place in a stream that ends with ``last_seq``; None of one by which servers copy.

    The origin goes on while it is read: what it had delivered behind the end is still to come. Raises
    :class:`BadArchive`.
    """
    shown = read_object(consumer.content, f"consumer {consumer.name}")
    config, state = dict(shown.get("config") or {}), dict(shown.get("state") or {})
    if config.get("direct") or config.get("sourcing"):
        return None
    config["num_replicas"] = min(1, config.get("num_replicas", 0))
    for place in ("delivered", "ack_floor"):
        said = dict(state.get(place) or {})
        state[place] = said | {"stream_seq": min(said.get("stream_seq", 0), last_seq)}
    for part in ("pending", "redelivered"):
        state[part] = {seq: one for seq, one in (state.get(part) or {}).items() if int(seq) <= last_seq}
    return ArchivedConsumer(consumer.name, json.dumps({"config": config, "state": state}).encode())
