"""What the body of an ack says, read as nats-server reads it."""

import json
from typing import Final

from delta_store.config.go_duration import go_duration_ns

ACK: Final = frozenset((b"", b"+ACK", b"+OK"))
NEXT: Final = b"+NXT"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
TERM: Final = b"+TERM"

_MAX: Final = (1 << 63) - 1
_TEXT_MAX: Final = 4096


def nak_delay(body: bytes) -> int | None:
    """The delay in ns that a ``-NAK`` asks for, None when it names none that can be read."""
    text = body[len(NAK) :].strip()
    if not text or len(text) > _TEXT_MAX:
        return None
    if text.startswith(b"{"):
        return _json_delay(text)
    return go_duration_ns(text.decode(errors="replace"))


def term_reason(body: bytes) -> str:
    """What a ``+TERM`` gives as its reason."""
    return body[len(TERM) :].strip().decode(errors="replace")


def _json_delay(text: bytes) -> int | None:
    try:
        shown = json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    delay = next((value for key, value in reversed(shown.items()) if key.lower() == "delay"), 0)
    if delay is None:
        return 0
    return delay if type(delay) is int and abs(delay) <= _MAX else None
