"""The address and login of a link, from a context of the nats CLI."""

from pathlib import Path

from api.process.nats_context import NatsContext
from ingest.links.attachment import Access
from ingest.protocol.credentials import CredentialSource, TlsOptions
from ingest.protocol.link import parse_endpoints


def link_access(context: NatsContext) -> Access:
    """Return what a link needs to attach where the context says. Raises ``ValueError``."""
    return Access(
        parse_endpoints(context.url, default_port=4222),
        CredentialSource(
            user=context.user,
            password=context.password,
            token=context.token,
            nkey_seed_file=_path(context.nkey),
            credentials_file=_path(context.creds),
        ),
        TlsOptions(ca_file=_path(context.ca), certificate_file=_path(context.cert), key_file=_path(context.key)),
    )


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
