"""The seal of a log entry that Silt commits: a checksum over all of its bytes, in either table. Pure.

``commitInfo`` has an object ``silt`` whose ``crc`` is the CRC-32 of the whole entry with that field's digits as zeros.
Invariant: a sealed entry that is empty, short, NUL-filled or altered in any byte is reported as damage, never read as a
smaller commit.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from isal.isal_zlib import crc32

from delta_store.values.read_errors import DamagedData

Actions = Mapping[str, list[Any]]
"""The actions of an entry, by their names."""
NO_CRC: Final = "00000000"
"""The value of ``crc`` before :func:`seal`."""
ENGINE: Final = "silt"
"""``engineInfo`` of our commits."""
_CRC_KEY: Final = b'"crc":"'
_MARKS: Final = (b'"silt":{"crc":"', b'"engineInfo":"silt"')
"""Each shows that an entry is sealed: one altered byte can't hide both."""


def seal(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Encode the actions, one a line, and fill in the checksum; the first is a ``commitInfo`` with ``silt``."""
    raw = ("\n".join(map(compact, actions)) + "\n").encode()
    start = raw.index(_CRC_KEY) + len(_CRC_KEY)
    return raw[:start] + b"%08x" % crc32(raw) + raw[start + 8 :]


def is_sealed(raw: bytes) -> bool:
    """Whether an entry is one of :func:`seal`, whole or not."""
    return any(mark in raw for mark in _MARKS)


def verify(raw: bytes, *, file: str) -> None:
    """Raise :class:`DamagedData` unless the checksum inside an entry matches its bytes."""
    start = raw.find(_CRC_KEY) + len(_CRC_KEY)
    if not raw:
        raise DamagedData(file, "it is empty")
    if not raw.strip(b"\0"):
        raise DamagedData(file, "it is filled with NUL bytes")
    if start < len(_CRC_KEY) or not raw.endswith(b"}\n"):
        raise DamagedData(file, "it is cut short, or not written by Silt")
    if raw[start : start + 8] != b"%08x" % crc32(raw[:start] + NO_CRC.encode() + raw[start + 8 :]):
        raise DamagedData(file, "its content does not match its checksum")


def actions_of(raw: bytes) -> Actions:
    """Return an entry's actions; raise ``ValueError`` or ``AttributeError`` for what is no Delta log entry."""
    actions: dict[str, list[Any]] = {}
    for line in raw.splitlines():
        if line.strip():
            for name, body in json.loads(line).items():
                actions.setdefault(name, []).append(body)
    return actions


compact = json.JSONEncoder(separators=(",", ":")).encode
