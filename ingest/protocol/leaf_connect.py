"""The leaf link's side of the handshake, without its IO.

Facts of nats-server (server/leafnode.go, processLeafNodeConnect and addLeafNodeConnection): a ``lang`` field closes the
connection as a wrong port; without ``headers`` no header arrives; without ``compress_mode`` nothing is compressed; a
hub evicts an older connection with the same name, cluster and ``remote_account``, which ends our half-open connection
when we reconnect; ``cluster`` must differ from the hub's, as interest is not shared inside one cluster name.
"""

from dataclasses import dataclass
from typing import Final

from ingest.protocol.credentials import Credentials
from ingest.protocol.handshake import HubInfo, authorization, connect_line
from ingest.protocol.link import HubEndpoint
from ingest.protocol.wire_protocol import ProtocolError

PROTOCOL_VERSION: Final = "2.15.0"
"""The nats-server version whose leafnode protocol we speak; a hub holds it against ``leafnodes.min_version``."""
_REMOTE_ACCOUNT: Final = "silt"


@dataclass(frozen=True, slots=True)
class LeafIdentity:
    """The leafnode's identity at the hub; unique among processes that run at the same time."""

    name: str
    server_id: str
    domain: str = ""

    def __post_init__(self) -> None:
        if not self.name or self.name.split() != [self.name]:
            raise ValueError(f"a leaf's name has no spaces: {self.name!r}")


def check_leaf_listener(hub: HubInfo) -> None:
    """Raise :class:`ProtocolError` for a listener that is not for leafnodes."""
    if hub.for_clients:
        raise ProtocolError("this port is for clients; the leaf link needs the port of the leafnodes block")


def connect_frame(hub: HubInfo, endpoint: HubEndpoint, identity: LeafIdentity, credentials: Credentials) -> bytes:
    """Return the CONNECT frame of a leafnode. Raises ``CredentialsError`` for an unusable seed."""
    fields = {
        "version": PROTOCOL_VERSION,
        "server_id": identity.server_id,
        "name": identity.name,
        "cluster": identity.name,
        "domain": identity.domain,
        "headers": True,
        "jetstream": False,
        "is_hub": False,
        "remote_account": _REMOTE_ACCOUNT,
    }
    return connect_line(fields | authorization(hub, endpoint, credentials))
