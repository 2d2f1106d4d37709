"""The links' logins, from the settings."""

from conf.settings import NatsSettings
from ingest.protocol.credentials import CredentialSource, TlsOptions


def credentials(nats: NatsSettings) -> CredentialSource:
    """Return those of the client link: user and password, token, nkey or credentials file.

    Raises ``CredentialsError`` when more than one is set.
    """
    return CredentialSource(
        user=nats.user or "",
        password=nats.password.get_secret_value() if nats.password else "",
        token=nats.token.get_secret_value() if nats.token else "",
        nkey_seed_file=nats.nkey_seed_file,
        credentials_file=nats.credentials_file,
    )


def leaf_credentials(nats: NatsSettings) -> CredentialSource:
    """Return those of the leaf link: its own if set, else the client link's; raises ``CredentialsError``."""
    own = CredentialSource(
        user=nats.leaf_user or "",
        password=nats.leaf_password.get_secret_value() if nats.leaf_password else "",
        nkey_seed_file=nats.leaf_nkey_seed_file,
        credentials_file=nats.leaf_credentials_file,
    )
    return credentials(nats) if own == CredentialSource() else own


def tls(nats: NatsSettings) -> TlsOptions:
    """Return the certificate authorities and the client's certificate."""
    return TlsOptions(ca_file=nats.tls_ca_file, certificate_file=nats.tls_certificate_file, key_file=nats.tls_key_file)
