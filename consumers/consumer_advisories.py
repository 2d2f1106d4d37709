"""Advisories about consumers' lives, with the fields of nats-server's schemas but type, id and time."""

from consumers.effects import Advisory


def action(stream: str, consumer: str, verb: str) -> Advisory:
    """A consumer was made or deleted; ``verb`` is ``create`` or ``delete``."""
    name = {"create": "CREATED", "delete": "DELETED", "update": "UPDATED"}[verb]
    fields = {"stream": stream, "consumer": consumer, "action": verb}
    return Advisory(f"$JS.EVENT.ADVISORY.CONSUMER.{name}.{stream}.{consumer}", "consumer_action", fields)


def paused(stream: str, consumer: str, *, until: str, active: bool) -> Advisory:
    """A consumer was paused until a time (RFC 3339), or goes on since that time (``active`` False)."""
    fields = {"stream": stream, "consumer": consumer, "paused": active, "pause_until": until}
    return Advisory(f"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.{stream}.{consumer}", "consumer_pause", fields)
