"""Advisories on streams, batches and the API: the fields of nats-server's schemas but type, id and time. Pure."""

from typing import Any, Final

from consumers.machine.effects import Advisory
from ingest.publishing.group import Group

AUDIT_SUBJECT: Final = "$JS.EVENT.ADVISORY.API"
_ACTIONS: Final = {
    b"STREAM.CREATE": ("create", "CREATED"),
    b"STREAM.UPDATE": ("modify", "UPDATED"),
    b"STREAM.DELETE": ("delete", "DELETED"),
}


def stream_action(path: bytes) -> Advisory | None:
    """Return the advisory of a request that changed a stream; None if there is none for it.

    ``path`` is the request's subject behind ``$JS.API.``.
    """
    verb, _, name = path.rpartition(b".")
    if verb not in _ACTIONS:
        return None
    action, token = _ACTIONS[verb]
    stream = name.decode()
    fields = {"stream": stream, "action": action}
    return Advisory(f"$JS.EVENT.ADVISORY.STREAM.{token}.{stream}", "stream_action", fields)


def api_audit(path: bytes, request: bytes, response: bytes, *, server: str) -> Advisory:
    """Return the audit advisory of a request that was answered.

    Of the client only its account is known: a hub forwards no more over a leaf link.
    """
    fields: dict[str, Any] = {"server": server, "client": {"acc": "$G"}, "subject": f"$JS.API.{_text(path)}"}
    if request:
        fields["request"] = _text(request)
    return Advisory(AUDIT_SUBJECT, "api_audit", fields | {"response": _text(response)})


def abandoned_batches(group: Group) -> list[Advisory]:
    """Return advisories of the atomic batches that a group lists as abandoned, and clear its list."""
    if not group.abandoned:
        return []
    abandoned, group.abandoned = group.abandoned, []
    return [
        Advisory(
            f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{stream}",
            "stream_batch_abandoned",
            {"stream": stream, "batch": one.batch_id, "reason": one.reason},
        )
        for stream, one in abandoned
    ]


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
