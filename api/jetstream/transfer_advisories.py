"""Advisories of backups and restores: the fields of nats-server's schemas but type, id and time. Pure.

Of the client only its account is known: a hub forwards no more over a leaf link.
"""

from collections.abc import Mapping
from typing import Any, Final

from consumers.machine.effects import Advisory
from delta_store.dialect.times import format_time

_SUBJECT: Final = "$JS.EVENT.ADVISORY.STREAM."
_CLIENT: Final = {"acc": "$G"}


def snapshot_begun(stream: str, state: Mapping[str, Any]) -> Advisory:
    """Return the advisory of a backup that begins."""
    fields = {"stream": stream, "state": state, "client": _CLIENT}
    return Advisory(f"{_SUBJECT}SNAPSHOT_CREATE.{stream}", "snapshot_create", fields)


def snapshot_ended(stream: str, *, start_ns: int, end_ns: int, error: str = "") -> Advisory:
    """Return the advisory of a backup that ended; ``error`` is why it is not whole."""
    fields = {"stream": stream, **_period(start_ns, end_ns), "client": _CLIENT, **({"error": error} if error else {})}
    return Advisory(f"{_SUBJECT}SNAPSHOT_COMPLETE.{stream}", "snapshot_complete", fields)


def restore_begun(stream: str) -> Advisory:
    """Return the advisory of a restore that begins."""
    return Advisory(f"{_SUBJECT}RESTORE_CREATE.{stream}", "restore_create", {"stream": stream, "client": _CLIENT})


def restore_ended(stream: str, *, start_ns: int, end_ns: int, size: int) -> Advisory:
    """Return the advisory of a restore that ended, well or not, after ``size`` bytes."""
    fields = {"stream": stream, **_period(start_ns, end_ns), "bytes": size, "client": _CLIENT}
    return Advisory(f"{_SUBJECT}RESTORE_COMPLETE.{stream}", "restore_complete", fields)


def _period(start_ns: int, end_ns: int) -> dict[str, str]:
    return {"start": format_time(start_ns), "end": format_time(end_ns)}
