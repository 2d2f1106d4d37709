"""The header block of a published message: the fields that the server reads, and the bytes that are stored.

The block is stored byte for byte, but for the parts that nats-server removes: the rest of a status line and
``Nats-Request-Info``. Names are case-sensitive, as in nats-server, and of a repeated header the first counts.
"""

import re

LINE = b"NATS/1.0\r\n"
_EMPTY = b"NATS/1.0\r\n\r\n"
_MSG_ID = b"\r\nNats-Msg-Id:"
_REQUEST_INFO = b"Nats-Request-Info"
_fields = re.compile(rb"\r\n(Nats-[^:\r\n]*): *(.*?)(?=\r\n)", re.DOTALL).findall
_COUNT = re.compile(rb"[0-9]{1,19}")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_NEVER_EMPTY = frozenset({b"Nats-Schedule-Time-Zone", b"Nats-Batch-Commit"})


def plain_msg_id(header: bytes) -> str | None:
    """Return the message id if the block has no other field for the server; empty if it has none at all.

    None means that the block must be parsed by :func:`fields` and :func:`stored`.
    """
    if not header.startswith(LINE):
        return None
    concerns = header.count(b"Nats-")
    if not concerns:
        return ""
    start = header.find(_MSG_ID)
    if concerns > 1 or start < 0:
        return None
    start += len(_MSG_ID)
    return header[start : header.find(b"\r\n", start)].lstrip(b" ").decode(errors="backslashreplace")


def fields(header: bytes) -> dict[bytes, bytes]:
    """Return the ``Nats-…`` headers that have a value, and those that are invalid without one."""
    found: dict[bytes, bytes] = {}
    for name, value in _fields(header):
        found.setdefault(name, value)
    return {name: value for name, value in found.items() if value or name in _NEVER_EMPTY}


def stored(header: bytes) -> bytes | None:
    """Return the block to store; None if nothing of it is left."""
    if header.startswith(b"NATS/1.0") and not header.startswith(LINE):
        rest = header[header.find(b"\r\n") :]
        if rest == b"\r\n\r\n":
            return None
        header = b"NATS/1.0" + rest
    if _REQUEST_INFO in header:
        header = without(header, _REQUEST_INFO)
        if header == _EMPTY:
            return None
    return header or None


def sequence(value: bytes) -> int:
    """Parse an expected sequence; -1, which no sequence equals, for any other text."""
    return int(value) if _COUNT.fullmatch(value) else -1


def is_increment(value: bytes) -> bool:
    """Whether this is a valid increment of a counter."""
    return _INTEGER.fullmatch(value) is not None


def without(header: bytes, name: bytes) -> bytes:
    """Return the block without the headers of this name."""
    while (start := header.find(b"\r\n" + name + b":")) >= 0:
        header = header[:start] + header[header.find(b"\r\n", start + 2) :]
    return header


def with_field(header: bytes, name: bytes, value: bytes) -> bytes:
    """Return the block with a further header at its end."""
    return (header[:-2] or LINE) + name + b": " + value + b"\r\n\r\n"


def set_field(header: bytes, name: bytes, value: bytes) -> bytes:
    """Return the block with this value in the first header of this name, or in a new one at its end."""
    start = header.find(b"\r\n" + name + b":")
    if start < 0:
        return with_field(header, name, value)
    start += len(name) + 3
    start += header[start : start + 1] == b" "
    return header[:start] + value + header[header.find(b"\r\n", start) :]
