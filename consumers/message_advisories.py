"""Advisories and metrics about single messages and pins, with the fields of nats-server's schemas."""

from consumers.effects import Advisory

_ADVISORY = "$JS.EVENT.ADVISORY.CONSUMER."


def naked(stream: str, consumer: str, *, consumer_seq: int, stream_seq: int, deliveries: int) -> Advisory:
    """A client refused a message."""
    fields = _message(stream, consumer, consumer_seq=consumer_seq, stream_seq=stream_seq, deliveries=deliveries)
    return Advisory(f"{_ADVISORY}MSG_NAKED.{stream}.{consumer}", "nak", fields)


def terminated(
    stream: str, consumer: str, *, consumer_seq: int, stream_seq: int, deliveries: int, reason: str
) -> Advisory:
    """A message will not be delivered again: a client said so, or it left the stream before it was acked."""
    fields = _message(stream, consumer, consumer_seq=consumer_seq, stream_seq=stream_seq, deliveries=deliveries)
    if reason:
        fields["reason"] = reason
    return Advisory(f"{_ADVISORY}MSG_TERMINATED.{stream}.{consumer}", "terminated", fields)


def max_deliver(stream: str, consumer: str, *, stream_seq: int, deliveries: int) -> Advisory:
    """A message was delivered as often as it may be, and nobody acked it."""
    fields: dict[str, object] = {"stream": stream, "consumer": consumer}
    fields |= {"stream_seq": stream_seq, "deliveries": deliveries}
    return Advisory(f"{_ADVISORY}MAX_DELIVERIES.{stream}.{consumer}", "max_deliver", fields)


def pinned(stream: str, consumer: str, *, group: str, pin_id: str) -> Advisory:
    """A client of a priority group has been pinned."""
    fields: dict[str, object] = {"account": "$G", "stream": stream, "consumer": consumer}
    fields |= {"group": group, "pinned_id": pin_id}
    return Advisory(f"{_ADVISORY}PINNED.{stream}.{consumer}", "consumer_group_pinned", fields)


def unpinned(stream: str, consumer: str, *, group: str, reason: str) -> Advisory:
    """The pin of a priority group has ended: ``admin`` or ``timeout``."""
    fields: dict[str, object] = {"account": "$G", "stream": stream, "consumer": consumer}
    fields |= {"group": group, "reason": reason}
    return Advisory(f"{_ADVISORY}UNPINNED.{stream}.{consumer}", "consumer_group_unpinned", fields)


def ack_metric(
    stream: str, consumer: str, *, consumer_seq: int, stream_seq: int, deliveries: int, ack_time_ns: int
) -> Advisory:
    """How long a sampled message waited for its ack."""
    fields = _message(stream, consumer, consumer_seq=consumer_seq, stream_seq=stream_seq, deliveries=deliveries)
    fields["ack_time"] = ack_time_ns
    return Advisory(f"$JS.EVENT.METRIC.CONSUMER.ACK.{stream}.{consumer}", "consumer_ack", fields)


def _message(stream: str, consumer: str, *, consumer_seq: int, stream_seq: int, deliveries: int) -> dict[str, object]:
    return {
        "stream": stream,
        "consumer": consumer,
        "consumer_seq": consumer_seq,
        "stream_seq": stream_seq,
        "deliveries": deliveries,
    }
