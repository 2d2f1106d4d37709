"""Advisories and metrics of consumers, messages and pins: the fields of nats-server's schemas but type, id and time."""

from typing import NamedTuple

from consumers.machine.effects import Advisory
from delta_store.dialect.times import format_time

_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER."


class Delivery(NamedTuple):
    """The delivery that an advisory is about."""

    stream: str
    consumer: str
    consumer_seq: int
    stream_seq: int
    deliveries: int
    """Number of the message's deliveries, this one included."""


def action(stream: str, consumer: str, verb: str) -> Advisory:
    """Return the advisory of a consumer's creation or deletion; ``verb`` is ``create`` or ``delete``."""
    name = {"create": "CREATED", "delete": "DELETED", "update": "UPDATED"}[verb]
    fields = {"stream": stream, "consumer": consumer, "action": verb}
    return Advisory(f"{_ADVISORY}{name}.{stream}.{consumer}", "consumer_action", fields)


def paused(stream: str, consumer: str, *, until_ns: int, now_ns: int) -> Advisory:
    """Return the advisory of a pause until a time, or of its end, if that is past or 0."""
    until = format_time(until_ns or None)
    fields = {"stream": stream, "consumer": consumer, "paused": until_ns > now_ns, "pause_until": until}
    return Advisory(f"{_ADVISORY}PAUSE.{stream}.{consumer}", "consumer_pause", fields)


def naked(delivery: Delivery) -> Advisory:
    """Return the advisory of a ``-NAK``."""
    return Advisory(f"{_ADVISORY}MSG_NAKED.{delivery.stream}.{delivery.consumer}", "nak", delivery._asdict())


def terminated(delivery: Delivery, reason: str) -> Advisory:
    """Return the advisory of a message terminated by a client, or removed from the stream before its ack."""
    fields = delivery._asdict() | ({"reason": reason} if reason else {})
    return Advisory(f"{_ADVISORY}MSG_TERMINATED.{delivery.stream}.{delivery.consumer}", "terminated", fields)


def max_deliver(stream: str, consumer: str, *, stream_seq: int, deliveries: int) -> Advisory:
    """Return the advisory of a message that reached ``max_deliver`` without an ack."""
    fields: dict[str, object] = {"stream": stream, "consumer": consumer}
    fields |= {"stream_seq": stream_seq, "deliveries": deliveries}
    return Advisory(f"{_ADVISORY}MAX_DELIVERIES.{stream}.{consumer}", "max_deliver", fields)


def pinned(stream: str, consumer: str, *, group: str, pin_id: str) -> Advisory:
    """Return the advisory of a client's pinning in a priority group."""
    fields: dict[str, object] = {"account": "$G", "stream": stream, "consumer": consumer}
    fields |= {"group": group, "pinned_id": pin_id}
    return Advisory(f"{_ADVISORY}PINNED.{stream}.{consumer}", "consumer_group_pinned", fields)


def unpinned(stream: str, consumer: str, *, group: str, reason: str) -> Advisory:
    """Return the advisory of the end of a pin; ``reason`` is ``admin`` or ``timeout``."""
    fields: dict[str, object] = {"account": "$G", "stream": stream, "consumer": consumer}
    fields |= {"group": group, "reason": reason}
    return Advisory(f"{_ADVISORY}UNPINNED.{stream}.{consumer}", "consumer_group_unpinned", fields)


def ack_metric(delivery: Delivery, ack_time_ns: int) -> Advisory:
    """Return the metric of a sampled message's time to ack, with the fields in nats-server's order."""
    subject = f"$JS.EVENT.METRIC.CONSUMER.ACK.{delivery.stream}.{delivery.consumer}"
    fields = delivery._asdict()
    deliveries = fields.pop("deliveries")
    return Advisory(subject, "consumer_ack", fields | {"ack_time": ack_time_ns, "deliveries": deliveries})
