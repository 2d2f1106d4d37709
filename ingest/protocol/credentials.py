"""The credentials of a link (user and password, token, nkey seed, ``.creds`` file) and its TLS options.

Files are read again for each connection, so a renewed credential or certificate counts from the next one on. No
``repr`` and no error's text holds a secret.
"""

import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_JWT_BLOCK = re.compile(r"-+BEGIN NATS USER JWT-+\s*([A-Za-z0-9_.\-=]+)\s*-+END NATS USER JWT-+")
_SEED_BLOCK = re.compile(r"-+BEGIN USER NKEY SEED-+\s*([A-Z2-7]+)\s*-+END USER NKEY SEED-+")


class CredentialsError(ValueError):
    """A credential or certificate can't be read or used; the text names the file, never its content."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for one CONNECT frame; an empty string is absent."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    seed: str = field(default="", repr=False)
    """An nkey's seed (``SU…``): signs the server's nonce, is never sent."""
    jwt: str = field(default="", repr=False)

    def sign(self, nonce: str) -> tuple[str, bytes]:
        """Return the public key and the signature of the server's nonce. Raises :class:`CredentialsError`."""
        import nkeys  # type: ignore[import-untyped]

        try:
            pair = nkeys.from_seed(bytearray(self.seed.encode()))
            return pair.public_key.decode(), pair.sign(nonce.encode())
        except Exception as error:
            raise CredentialsError("the nkey seed is not one") from error


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """The settings from which credentials are loaded; at most one kind may be given."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey_seed_file: Path | None = None
    credentials_file: Path | None = None

    def __post_init__(self) -> None:
        ways = (self.user or self.password, self.token, self.nkey_seed_file, self.credentials_file)
        if sum(bool(way) for way in ways) > 1:
            raise CredentialsError("give one of user and password, token, nkey seed file, credentials file")

    def load(self) -> Credentials:
        """Read the credentials. Raises :class:`CredentialsError`."""
        if self.nkey_seed_file is not None:
            return Credentials(seed=_read(self.nkey_seed_file).strip())
        if self.credentials_file is not None:
            text = _read(self.credentials_file)
            jwt, seed = _JWT_BLOCK.search(text), _SEED_BLOCK.search(text)
            if jwt is None or seed is None:
                raise CredentialsError(f"{self.credentials_file} holds no user JWT with its seed")
            return Credentials(jwt=jwt[1], seed=seed[1])
        return Credentials(user=self.user, password=self.password, token=self.token)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The authorities by which the server is verified, and the client's certificate."""

    ca_file: Path | None = None
    """Certificate authorities in place of the system's."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""
    """Name to verify instead of the URL's host."""
    handshake_first: bool = False
    """TLS before the server's INFO (nats-server's ``handshake_first``)."""
    required: bool = False
    """Refuse a server that does not ask for TLS, whatever the URL's scheme."""

    @property
    def configured(self) -> bool:
        """Whether any option is set; if none is, TLS is used only if the server asks for it."""
        return self != TlsOptions()

    def context(self) -> ssl.SSLContext:
        """Return a verifying client context, rebuilt when a file has changed. Raises :class:`CredentialsError`."""
        files = (self.ca_file, self.certificate_file, self.key_file)
        try:
            return _context(*files, tuple(path.stat().st_mtime_ns for path in files if path is not None))
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(str(path) for path in files if path) or "the system's authorities"
            raise CredentialsError(f"can't use {named}: {error}") from error


@lru_cache(maxsize=8)
def _context(
    ca_file: Path | None, certificate_file: Path | None, key_file: Path | None, changed_ns: tuple[int, ...]
) -> ssl.SSLContext:
    """Build a context; cached, as reading the system's authorities is slow. ``changed_ns`` is part of the key."""
    del changed_ns
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate_file is not None:
        context.load_cert_chain(str(certificate_file), str(key_file) if key_file else None)
    return context


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"can't read {path}: {type(error).__name__}") from error
