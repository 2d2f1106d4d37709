"""What a copy asks its origin for: the consumer that nats-server 2.15 would ask for (server/stream.go). Pure."""

import json
from typing import Any, Final, NamedTuple

from delta_store.dialect.times import format_time
from delta_store.streams.copy_links import CopyLink
from delta_store.streams.stream_identity import IDENTITY_HEADER
from delta_store.streams.stream_sources import index_name, short_hash

Json = dict[str, Any]
_API: Final = "$JS.API"
_ACCOUNT: Final = "$G"
"""The account in consumers' names: a leaf is not told which it is in."""
_ACK_WAIT_NS: Final = 22 * 3600 * 10**9
_SECOND_NS: Final = 10**9
_SILENCE_NS: Final = 10 * _SECOND_NS
SOURCING_LEVEL: Final = 4
"""The API level of origins that know what a consumer is for: consumers of older ones need names of their own."""
IDENTITY_LEVEL: Final = 5
"""The API level of origins that tell which stream of the name they are."""


class OriginStart(NamedTuple):
    """Where a consumer begins: at a sequence, at a time (ns), or at the first message."""

    seq: int = 0
    time_ns: int | None = None

    def fields(self) -> Json:
        """Return the fields of the consumer's configuration."""
        if self.seq:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": self.seq}
        if self.time_ns is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": format_time(self.time_ns)}
        return {"deliver_policy": "all"}


def start_of(link: CopyLink, *, recreated: bool) -> OriginStart:
    """Return where a copy goes on; ``recreated``: whether its origin is another stream than the one copied so far."""
    source, index = link.source, link.target.index
    if not link.label:
        if index.last_seq or index.first_seq:
            return OriginStart(index.last_seq + 1)
        return OriginStart(source.opt_start_seq, source.opt_start_time)
    position = link.target.sources.get(link.label)
    if position is not None and position.seq and not recreated:
        return OriginStart(position.seq + 1)
    if source.opt_start_seq:
        return OriginStart(source.opt_start_seq)
    if source.opt_start_time is not None:
        return OriginStart(time_ns=max(source.opt_start_time, index.last_ts))
    copied_before = index.first_seq > 1 and index.last_ts and not recreated
    return OriginStart(time_ns=index.last_ts) if copied_before else OriginStart()


def consumer_name(link: CopyLink, domain: str) -> str:
    """Return the name of a copy's consumer at its origin, the same in each life of the copying stream."""
    stream = link.target.name
    stable = short_hash(f"{stream} {_ACCOUNT} {domain}" if domain else f"{stream} {_ACCOUNT}")
    if not link.label:
        return f"JS_MIRROR_{stable}"
    namesakes = [one for one in link.target.config.sources if one.name == link.source.name]
    return f"JS_SRC_{short_hash(f'{stable} {index_name(link.source)}' if len(namesakes) > 1 else stable)}"


def deliver_subject(link: CopyLink, token: str) -> str:
    """Return the subject that the origin delivers to."""
    kind = "S" if link.label else "M"
    external = link.source.external
    prefix = f"{external.deliver}.{kind}" if external is not None and external.deliver else f"$JS.{kind}"
    return f"{prefix}.{token}".replace("..", ".")


def create_request(
    link: CopyLink, *, domain: str, start: OriginStart, deliver_to: str, level: int, token: str
) -> tuple[str, bytes]:
    """Return the subject and body of the request; ``level``: the origin's, ``token``: random letters and digits."""
    name, kind = consumer_name(link, domain), "src" if link.label else "mirror"
    if level < SOURCING_LEVEL:
        name = f"{name}_{token[:8]}"
    metadata = {f"_nats.{kind}.stream": link.target.name, f"_nats.{kind}.acc": _ACCOUNT}
    config: Json = {"name": name, **start.fields(), "ack_policy": "none", "ack_wait": _ACK_WAIT_NS, "max_deliver": 1}
    filters = [one.src or ">" for one in link.source.subject_transforms]
    single = link.source.filter_subject or (filters[0] if len(filters) == 1 else "")
    if single:
        config["filter_subject"] = single
    elif filters:
        config["filter_subjects"] = filters
    config |= {
        "replay_policy": "instant",
        "flow_control": True,
        "idle_heartbeat": _SECOND_NS,
        "deliver_subject": deliver_to,
        "inactive_threshold": _SILENCE_NS,
        "num_replicas": 0,
        "metadata": metadata | ({f"_nats.{kind}.domain": domain} if domain else {}),
        "direct": True,
    }
    if level >= SOURCING_LEVEL:
        config["sourcing"] = True
    words = ("CONSUMER.CREATE", link.source.name, *((name, single) if single else ()))
    body = {"stream_name": link.source.name, "config": config}
    return _api(link, ".".join(words)), json.dumps(body, separators=(",", ":")).encode()


def reset_subject(link: CopyLink) -> str:
    """Return the subject of the request that has a named consumer deliver from its ack floor on."""
    named = link.source.consumer
    assert named is not None
    return _api(link, f"CONSUMER.RESET.{link.source.name}.{named.name}")


def delete_subject(link: CopyLink, domain: str) -> str:
    """Return the subject of the request that deletes a copy's consumer."""
    return _api(link, f"CONSUMER.DELETE.{link.source.name}.{consumer_name(link, domain)}")


def first_level(link: CopyLink) -> int:
    """Return the API level that a copy asks for at first."""
    if link.label:
        return IDENTITY_LEVEL
    return SOURCING_LEVEL if link.source.consumer is None else 0


def request_header(level: int, identity: str) -> bytes:
    """Return a request's header; ``identity``: that of the origin copied so far, empty if none is known."""
    if level < SOURCING_LEVEL:
        return b""
    lines = ["NATS/1.0", f"Nats-Required-Api-Level: {level}"]
    if level >= IDENTITY_LEVEL:
        lines.append(f"{IDENTITY_HEADER}: {identity}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _api(link: CopyLink, words: str) -> str:
    external = link.source.external
    return f"{external.api if external is not None else _API}.{words}".replace("..", ".")
