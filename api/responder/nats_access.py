"""How the links log in, taken from the settings."""

from conf.settings import NatsSettings
from ingest.protocol.credentials import CredentialSource, TlsOptions


def credentials(nats: NatsSettings) -> CredentialSource:
    """Of the client link: user and password, token, nkey or credentials file.

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
    """Of the leaf link: its own where one is set, else those of the client link; raises ``CredentialsError``."""
    own = CredentialSource(
        user=nats.leaf_user or "",
        password=nats.leaf_password.get_secret_value() if nats.leaf_password else "",
        nkey_seed_file=nats.leaf_nkey_seed_file,
        credentials_file=nats.leaf_credentials_file,
    )
    return credentials(nats) if own == CredentialSource() else own


def tls(nats: NatsSettings) -> TlsOptions:
    """Certificates to trust and to show."""
    return TlsOptions(ca_file=nats.tls_ca_file, certificate_file=nats.tls_certificate_file, key_file=nats.tls_key_file)
