"""Bearer credentials of the HTTP API: keys, whose hashes are in a file, and signed tokens (JWT).

Both files are read again when they change, so keys are added and removed without a restart. While a file can't be read,
none of its keys are valid. No error and no log has a client's credential.
"""

import hashlib
import json
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from api.rest.access import Principal, parse_scope
from conf.limits import JWT_LEEWAY_SECONDS
from conf.setting_sources import SettingsError
from conf.settings import HttpSettings

KEY_PREFIX = "silt_"
KEY_BYTES = 32
_HASH = re.compile(r"[0-9a-f]{64}")
Read = TypeVar("Read")


class NotRecognised(Exception):
    """The credential is not valid; the client does not learn why."""


def new_key() -> str:
    """Return a new random key."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def hash_of(key: str) -> str:
    """Return the hash of a key. Keys are as random as the hash is long, so a fast hash without salt suffices."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_keys(text: str) -> dict[str, Principal]:
    """Parse ``[[key]]`` tables with name, sha256 and scopes into principals by hash. Raises ``ValueError``."""
    holders: dict[str, Principal] = {}
    content = tomllib.loads(text)
    if content.keys() - {"key"}:
        raise ValueError(f"unknown: {', '.join(sorted(content.keys() - {'key'}))}; keys are [[key]] tables")
    for entry in content.get("key", []):
        name, digest, scopes = entry.get("name"), entry.get("sha256"), entry.get("scopes")
        if entry.keys() != {"name", "sha256", "scopes"} or not isinstance(name, str) or not isinstance(scopes, list):
            raise ValueError("each [[key]] has name, sha256 and scopes")
        if not isinstance(digest, str) or not _HASH.fullmatch(digest):
            raise ValueError(f"key {name!r}: sha256 is not the hash that silt key prints")
        if digest in holders:
            raise ValueError(f"key {name!r} is there twice")
        holders[digest] = Principal(name, tuple(parse_scope(str(scope)) for scope in scopes))
    return holders


def read_signing_keys(text: str) -> dict[str, Any]:
    """Parse a JWKS, or one key as PEM (under the empty id), into public keys by id. Raises ``ValueError``."""
    if text.lstrip().startswith("-----BEGIN"):
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        return {"": load_pem_public_key(text.encode())}
    import jwt

    try:
        found = jwt.PyJWKSet.from_dict(json.loads(text)).keys
    except (jwt.PyJWTError, AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"no JSON Web Key Set: {error}") from None
    if any(key.key_type == "oct" for key in found):
        raise ValueError("holds a secret in place of public keys")
    return {key.key_id or "": key for key in found}


class Watched(Generic[Read]):
    """A file's parsed content, read again when the file has changed."""

    def __init__(self, path: Path, parse: Callable[[str], Read]) -> None:
        self._path = path
        self._parse = parse
        self._seen: object = None
        self._content: Read | None = None

    def now(self) -> Read:
        """Return the content. Raises ``OSError`` or ``ValueError`` if it can't be read or parsed."""
        found = self._path.stat()
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen or self._content is None:
            self._content = None
            self._content = self._parse(self._path.read_text())
            self._seen = seen
        return self._content


@dataclass(frozen=True, slots=True)
class Keyring:
    """All valid credentials of the API."""

    settings: HttpSettings
    keys: Watched[dict[str, Principal]] | None
    signing: Watched[dict[str, Any]] | None

    def principal(self, credential: str) -> Principal:
        """Return the principal of a bearer credential; raises :class:`NotRecognised`."""
        try:
            if credential.startswith(KEY_PREFIX):
                return self._holder(credential)
            return self._signed(credential)
        except Exception:  # noqa: BLE001  # whatever a stranger's text does to the parsers, it is not valid
            raise NotRecognised from None

    def _holder(self, key: str) -> Principal:
        holder = self.keys.now().get(hash_of(key)) if self.keys is not None else None
        if holder is None:
            raise NotRecognised
        return holder

    def _signed(self, token: str) -> Principal:
        if self.signing is None:
            raise NotRecognised
        import jwt

        keys = self.signing.now()
        key_id = jwt.get_unverified_header(token).get("kid", "")
        key = keys.get(key_id) or (next(iter(keys.values())) if len(keys) == 1 and not key_id else keys.get(""))
        if key is None:
            raise NotRecognised
        claims = jwt.decode(
            token,
            key,
            algorithms=list(self.settings.jwt_algorithms),
            issuer=self.settings.jwt_issuer,
            audience=self.settings.jwt_audience,
            leeway=JWT_LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
        return Principal(str(claims.get("sub", "")), _scopes(claims))


def open_keyring(settings: HttpSettings) -> Keyring | None:
    """Open the key files of the settings, and read them once as a check; None if there are none.

    Raises ``SettingsError``.
    """
    if settings.jwt_keys_file is not None and not (settings.jwt_issuer and settings.jwt_audience):
        raise SettingsError("http.jwt_keys_file needs http.jwt_issuer and http.jwt_audience beside it")
    keys = None if settings.api_keys_file is None else Watched(settings.api_keys_file, read_keys)
    signing = None if settings.jwt_keys_file is None else Watched(settings.jwt_keys_file, read_signing_keys)
    for name, watched in (("api_keys_file", keys), ("jwt_keys_file", signing)):
        if watched is None:
            continue
        try:
            watched.now()
        except (OSError, ValueError) as error:
            raise SettingsError(f"http.{name} can't be used: {error}") from None
    return None if keys is None and signing is None else Keyring(settings, keys, signing)


def _scopes(claims: Mapping[str, Any]) -> Any:
    """Return our scopes in a token's ``scope`` claim; others are for other services."""
    given = claims.get("scope", claims.get("scp", ""))
    texts = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    scopes = []
    for text in texts:
        try:
            scopes.append(parse_scope(str(text)))
        except ValueError:
            continue
    return tuple(scopes)
