"""The leaf link's handshake, without its IO: read the hub's INFO, build the CONNECT that answers it.

Facts of nats-server (server/leafnode.go, processLeafNodeConnect and addLeafNodeConnection): a ``lang`` field closes the
connection as a wrong port; without ``headers`` no header arrives; no ``compress_mode`` turns compression off; a hub
evicts an older connection with the same name, cluster and ``remote_account``, which is how a half-open connection of
ours ends when we are back; the ``cluster`` must not be the hub's and interest is not shared inside one cluster name.
"""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final

from ingest.protocol.credentials import Credentials
from ingest.protocol.leaf_protocol import Info, LeafProtocolError
from ingest.protocol.link import Endpoint

PROTOCOL_VERSION: Final = "2.15.0"
"""The nats-server whose leafnode protocol we speak; a hub compares it with its ``leafnodes.min_version``."""
_REMOTE_ACCOUNT: Final = "silt"


@dataclass(frozen=True, slots=True)
class HubInfo:
    """What the hub says about itself."""

    server_id: str
    server_name: str
    version: str
    nonce: str
    headers: bool
    tls_required: bool
    max_payload: int
    """Bytes of header and payload that the hub takes in one message."""


@dataclass(frozen=True, slots=True)
class LeafIdentity:
    """Who we are to the hub; unique for each process that may run at the same time."""

    name: str
    server_id: str
    domain: str = ""

    def __post_init__(self) -> None:
        if not self.name or self.name.split() != [self.name]:
            raise ValueError(f"a leaf's name has no spaces: {self.name!r}")


def read_info(info: Info) -> HubInfo:
    """The hub's description. Raises :class:`LeafProtocolError` if this is no leafnode listener that we can use."""
    try:
        fields = json.loads(info.json)
    except ValueError as error:
        raise LeafProtocolError("INFO holds no JSON") from error
    if not isinstance(fields, dict):
        raise LeafProtocolError("INFO holds no JSON object")
    if "client_ip" in fields:
        raise LeafProtocolError("this port is for clients; the leaf link needs the port of the leafnodes block")
    hub = HubInfo(
        server_id=_text(fields, "server_id"),
        server_name=_text(fields, "server_name"),
        version=_text(fields, "version"),
        nonce=_text(fields, "nonce"),
        headers=fields.get("headers") is True,
        tls_required=fields.get("tls_required") is True,
        max_payload=_size(fields, "max_payload"),
    )
    if not hub.headers:
        raise LeafProtocolError("the hub does not support message headers")
    return hub


def connect_frame(hub: HubInfo, endpoint: Endpoint, identity: LeafIdentity, credentials: Credentials) -> bytes:
    """The CONNECT line; credentials win over those of the URL. Raises ``CredentialsError`` for an unusable seed."""
    fields: dict[str, Any] = {
        "version": PROTOCOL_VERSION,
        "server_id": identity.server_id,
        "name": identity.name,
        "cluster": identity.name,
        "domain": identity.domain,
        "headers": True,
        "jetstream": False,
        "is_hub": False,
        "remote_account": _REMOTE_ACCOUNT,
    } | _authorization(hub, endpoint, credentials)
    present = {name: value for name, value in fields.items() if value != ""}
    return b"CONNECT %b\r\n" % json.dumps(present, separators=(",", ":")).encode()


def _authorization(hub: HubInfo, endpoint: Endpoint, credentials: Credentials) -> dict[str, str]:
    if credentials.seed:
        public_key, signature = credentials.sign(hub.nonce)
        signed = {"sig": urlsafe_b64encode(signature).decode().rstrip("=")}
        return signed | ({"jwt": credentials.jwt} if credentials.jwt else {"nkey": public_key})
    if credentials.user or credentials.token:
        return {"user": credentials.user, "pass": credentials.password, "auth_token": credentials.token}
    return {"user": endpoint.user, "pass": endpoint.password, "auth_token": endpoint.token}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""


def _size(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or value < 0:
        raise LeafProtocolError(f"INFO gives no valid {name}")
    return value
