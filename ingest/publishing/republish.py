"""The republishing of stored messages (the stream's ``republish``)."""

from delta_store.dialect.times import format_time
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects
from ingest.protocol.wire_protocol import WireMessage

_OPENING = b"NATS/1.0\r\n"


def republished(state: StreamState, stored: WireMessage, *, seq: int, ts_ns: int, last_seq: int) -> WireMessage | None:
    """Return the message to republish for the one stored at ``seq``, None if its subject is not republished.

    ``stored`` has the stored subject and header block; ``last_seq`` is the subject's sequence before it, 0 for none.
    """
    transform, again = state.republishes, state.config.republish
    if transform is None or again is None:
        return None
    subject = stored.subject.decode()
    dest = transform.match(subject)
    if dest is None or not subjects.literal(dest):
        return None
    added = (
        f"Nats-Stream: {state.name}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\n"
        f"Nats-Time-Stamp: {format_time(ts_ns)}\r\nNats-Last-Sequence: {last_seq}\r\n"
    )
    if again.headers_only:
        added += f"Nats-Msg-Size: {len(stored.payload)}\r\n"
    header = (stored.header[:-2] or _OPENING) + added.encode() + b"\r\n"
    return WireMessage(dest.encode(), b"", header, b"" if again.headers_only else stored.payload)
