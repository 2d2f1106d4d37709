"""Advisories on the lives of consumers, with the fields of nats-server's schemas but type, id and time."""

from consumers.machine.effects import Advisory
from delta_store.dialect.times import format_time


def action(stream: str, consumer: str, verb: str) -> Advisory:
    """Return the advisory of a consumer's creation or deletion; ``verb`` is ``create`` or ``delete``."""
    name = {"create": "CREATED", "delete": "DELETED", "update": "UPDATED"}[verb]
    fields = {"stream": stream, "consumer": consumer, "action": verb}
    return Advisory(f"$JS.EVENT.ADVISORY.CONSUMER.{name}.{stream}.{consumer}", "consumer_action", fields)


def paused(stream: str, consumer: str, *, until_ns: int, now_ns: int) -> Advisory:
    """Return the advisory of a pause until a time, or of its end, if that is past or 0."""
    until = format_time(until_ns or None)
    fields = {"stream": stream, "consumer": consumer, "paused": until_ns > now_ns, "pause_until": until}
    return Advisory(f"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.{stream}.{consumer}", "consumer_pause", fields)
