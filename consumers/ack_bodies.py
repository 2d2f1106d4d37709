"""What the body of an ack says, read as nats-server reads it."""

import json
import re
from typing import Final

ACK: Final = frozenset((b"", b"+ACK", b"+OK"))
NEXT: Final = b"+NXT"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
TERM: Final = b"+TERM"

_UNITS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"([+-]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)", re.ASCII)
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
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


def go_duration_ns(text: str) -> int | None:
    """A duration like ``1m30.5s`` in ns, None when it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = 0
    for whole, fraction, unit in _PART.findall(found[2]):
        size = _UNITS[unit]
        total += int(whole or "0") * size + int((fraction or "0")[:18]) * size // 10 ** len((fraction or "0")[:18])
    if total > _MAX:
        return None
    return -total if found[1] == "-" else total


def _json_delay(text: bytes) -> int | None:
    try:
        shown = json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    delay = next((value for key, value in reversed(shown.items()) if key.lower() == "delay"), 0)
    if delay is None:
        return 0
    return delay if type(delay) is int and abs(delay) <= _MAX else None
