"""Publish acknowledgements as leaf frames, with nats-server's exact bodies."""

import json
from collections.abc import Sequence
from functools import lru_cache

from delta_store.config.api_errors import TOO_MANY_REQUESTS, ApiRefusal
from delta_store.dialect.json_writer import write_json

_BUSY_HEADER = b"NATS/1.0 429 Too Many Requests\r\n\r\n"


class PubAcks:
    """The acknowledgement frames of one stream."""

    __slots__ = ("_failed", "_opening", "_stored")

    def __init__(self, stream: str, domain: str) -> None:
        opening = f'{{"stream":{_quoted(stream)},' + (f'"domain":{_quoted(domain)},' if domain else "") + '"seq":'
        self._opening = opening.encode().replace(b"%", b"%%")
        self._failed = f',"stream":{_quoted(stream)},"seq":0}}'.encode()
        self._stored: dict[int, bytes] = {}
        """Frame templates by number of digits of the sequence, on which the frame's size depends."""

    def stored(self, reply: bytes, seq: int) -> bytes:
        """Acknowledge a message stored at ``seq``."""
        return self._template(len(str(seq))) % (reply, seq)

    def stored_run(self, replies: Sequence[bytes], first_seq: int) -> list[bytes]:
        """Acknowledge messages stored at consecutive sequences; those without a reply subject get none."""
        if len(replies) == 1:
            return [self.stored(replies[0], first_seq)] if replies[0] else []
        last_seq = first_seq + len(replies) - 1
        digits = len(str(first_seq))
        if digits != len(str(last_seq)):
            split = 10**digits - first_seq
            return self.stored_run(replies[:split], first_seq) + self.stored_run(replies[split:], 10**digits)
        template = self._template(digits)
        numbered = zip(replies, range(first_seq, last_seq + 1), strict=True)
        if all(replies):
            return list(map(template.__mod__, numbered))
        return [template % pair for pair in numbered if pair[0]]

    def duplicate(self, reply: bytes, seq: int) -> bytes:
        """Acknowledge a duplicate of the message at ``seq``."""
        return _frame(reply, self._opening % () + b'%d,"duplicate": true}' % seq)

    def committed(self, reply: bytes, seq: int, *, batch_id: str, count: int, duplicate: bool = False) -> bytes:
        """Acknowledge a batch of ``count`` messages, the last one at ``seq``, or a duplicate of one."""
        repeated = ',"duplicate": true' if duplicate else ""
        ending = f'{repeated},"batch":{_quoted(batch_id)},"count":{count}}}'.encode()
        return _frame(reply, self._opening % () + b"%d" % seq + ending)

    def counted(self, reply: bytes, seq: int, payload: bytes) -> bytes:
        """Acknowledge a counter's message, stored with this payload."""
        return _frame(reply, self._opening % () + b"%d," % seq + payload[1:])

    def failed(self, reply: bytes, error: ApiRefusal) -> bytes:
        """Refuse a message with an error."""
        return _frame(reply, b'{"error":' + write_json(error.as_json()) + self._failed)

    def busy(self, reply: bytes) -> bytes:
        """Refuse a message undecided, as too many are waiting."""
        body = b'{"error":' + write_json(TOO_MANY_REQUESTS.error.as_json()) + self._failed
        size = len(_BUSY_HEADER)
        return b"HMSG %b %d %d\r\n%b%b\r\n" % (reply, size, size + len(body), _BUSY_HEADER, body)

    def _template(self, digits: int) -> bytes:
        template = self._stored.get(digits)
        if template is None:
            size = len(self._opening % ()) + digits + 1
            template = self._stored[digits] = b"LMSG %%b %d\r\n" % size + self._opening + b"%d}\r\n"
        return template


@lru_cache(maxsize=4096)
def pub_acks(stream: str, domain: str = "") -> PubAcks:
    """Return the acknowledgement frames of a stream, cached."""
    return PubAcks(stream, domain)


def _frame(reply: bytes, body: bytes) -> bytes:
    return b"LMSG %b %d\r\n%b\r\n" % (reply, len(body), body)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
