"""The client link's side of the handshake, without its IO.

Facts of nats-server (server/client.go, processConnect and clientOpts): ``verbose`` would answer each frame with +OK;
without ``headers`` header blocks are cut off; ``no_responders`` needs them and concerns requests, which this link never
makes; ``protocol`` 1 has later INFOs sent; ``lang`` tells a client from a leaf.
"""

from typing import Final

from ingest.protocol.credentials import Credentials
from ingest.protocol.handshake import HubInfo, authorization, connect_line
from ingest.protocol.link import HubEndpoint

_WITH_LATER_INFOS: Final = 1


def connect_frame(hub: HubInfo, endpoint: HubEndpoint, credentials: Credentials, *, name: str, version: str) -> bytes:
    """Return the CONNECT frame of a client. Raises ``CredentialsError`` for an unusable seed."""
    fields = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": version,
        "name": name,
        "protocol": _WITH_LATER_INFOS,
        "headers": True,
        "no_responders": False,
        "echo": True,
        "tls_required": hub.tls_required,
    }
    return connect_line(fields | authorization(hub, endpoint, credentials))
