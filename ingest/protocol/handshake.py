"""The handshake of both kinds of link, without IO: reads the hub's INFO, writes CONNECT, logs in."""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

from ingest.protocol.credentials import Credentials
from ingest.protocol.link import HubEndpoint
from ingest.protocol.wire_protocol import Info, ProtocolError


@dataclass(frozen=True, slots=True)
class HubInfo:
    """The hub's INFO."""

    server_id: str
    server_name: str
    version: str
    nonce: str
    headers: bool
    tls_required: bool
    max_payload: int
    """Most bytes of header and payload in one message."""
    for_clients: bool
    """Whether this is the listener for clients, not that for leafnodes."""


def read_info(info: Info) -> HubInfo:
    """Decode INFO. Raises :class:`ProtocolError` if it is malformed or the hub has no message headers."""
    try:
        fields = json.loads(info.json)
    except ValueError as error:
        raise ProtocolError("INFO holds no JSON") from error
    if not isinstance(fields, dict):
        raise ProtocolError("INFO holds no JSON object")
    hub = HubInfo(
        server_id=_text(fields, "server_id"),
        server_name=_text(fields, "server_name"),
        version=_text(fields, "version"),
        nonce=_text(fields, "nonce"),
        headers=fields.get("headers") is True,
        tls_required=fields.get("tls_required") is True,
        max_payload=_size(fields, "max_payload"),
        for_clients="client_ip" in fields,
    )
    if not hub.headers:
        raise ProtocolError("the hub does not support message headers")
    return hub


def authorization(hub: HubInfo, endpoint: HubEndpoint, credentials: Credentials) -> dict[str, str]:
    """Return CONNECT's login fields; ``credentials`` win over the URL's. Raises ``CredentialsError`` for a bad seed."""
    if credentials.seed:
        public_key, signature = credentials.sign(hub.nonce)
        signed = {"sig": urlsafe_b64encode(signature).decode().rstrip("=")}
        return signed | ({"jwt": credentials.jwt} if credentials.jwt else {"nkey": public_key})
    if credentials.user or credentials.token:
        return {"user": credentials.user, "pass": credentials.password, "auth_token": credentials.token}
    return {"user": endpoint.user, "pass": endpoint.password, "auth_token": endpoint.token}


def connect_line(fields: dict[str, Any]) -> bytes:
    """Return the CONNECT frame with all fields that are not empty."""
    present = {name: value for name, value in fields.items() if value != ""}
    return b"CONNECT %b\r\n" % json.dumps(present, separators=(",", ":")).encode()


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""


def _size(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or value < 0:
        raise ProtocolError(f"INFO gives no valid {name}")
    return value
