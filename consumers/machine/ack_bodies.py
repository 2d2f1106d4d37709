"""The bodies of acks, parsed as by nats-server."""

from typing import Final

from delta_store.dialect.durations import parse_duration
from delta_store.dialect.json_shapes import DURATION, Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError

ACK: Final = frozenset((b"", b"+ACK", b"+OK"))
NEXT: Final = b"+NXT"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
TERM: Final = b"+TERM"

_NAK_OPTIONS: Final = Struct("ConsumerNakOptions", {"delay": DURATION}, is_open=True)
_TEXT_MAX: Final = 4096


def nak_delay(body: bytes) -> int | None:
    """Return the delay (ns) of a ``-NAK``, None if it has none that can be parsed."""
    text = body[len(NAK) :].strip()
    if not text or len(text) > _TEXT_MAX:
        return None
    if text.startswith(b"{"):
        return _json_delay(text)
    return parse_duration(text.decode(errors="replace"))


def term_reason(body: bytes) -> str:
    """Return the reason in a ``+TERM``."""
    return body[len(TERM) :].strip().decode(errors="replace")


def _json_delay(text: bytes) -> int | None:
    try:
        return int(unmarshal(text, _NAK_OPTIONS).get("delay", 0))
    except JsonError:
        return None
