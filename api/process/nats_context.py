"""The address and login of NATS: ``--server`` and ``NATS_URL`` win over a context of the nats CLI.

A context is ``<config>/nats/context/<name>.json``; ``<config>/nats/context.txt`` has the name of the selected one
(``<config>`` is ``$XDG_CONFIG_HOME`` or ``~/.config``). Format: the nats CLI's (ADR-21).
"""

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ingest.protocol.link import without_secrets

DEFAULT_URL = "nats://127.0.0.1:4222"


class UnknownContext(LookupError):
    """The named context does not exist or can't be read."""


@dataclass(frozen=True, slots=True)
class NatsContext:
    """The fields of a context that Silt uses; an empty one is not set."""

    url: str = DEFAULT_URL
    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    nkey: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    inbox_prefix: str = ""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a context file; unknown fields are ignored."""
        fields = json.loads(text)
        return cls(**{name: str(fields[name]) for name in cls.__slots__ if fields.get(name)})

    @property
    def shown_url(self) -> str:
        """The URL without its login, for messages."""
        return without_secrets(self.url)

    @property
    def api_prefix(self) -> str:
        """The JetStream API's subject prefix, without a final dot."""
        if self.jetstream_domain:
            return f"$JS.{self.jetstream_domain}.API"
        return self.jetstream_api_prefix or "$JS.API"

    def connect_options(self) -> dict[str, Any]:
        """Return the arguments of ``nats.connect``."""
        options: dict[str, Any] = {"servers": [url.strip() for url in self.url.split(",")]}
        named = {
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": _path(self.creds),
            "nkeys_seed": _path(self.nkey),
            "inbox_prefix": self.inbox_prefix,
        }
        options |= {name: value for name, value in named.items() if value}
        if self.ca or self.cert:
            options["tls"] = self._tls()
        return options

    def _tls(self) -> ssl.SSLContext:
        """Load the certificates. Raises :class:`UnknownContext`, which names the files, as the ``OSError`` does not."""
        try:
            tls = ssl.create_default_context(cafile=_path(self.ca) or None)
            if self.cert:
                tls.load_cert_chain(_path(self.cert), _path(self.key) or None)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca, self.cert, self.key)))
            raise UnknownContext(f"the context's certificates ({files}) can't be read: {error}") from error
        return tls


def find_context(server: str | None, context: str | None, *, environment: Mapping[str, str], home: Path) -> NatsContext:
    """Return the context to use; raises :class:`UnknownContext` when ``context`` names none."""
    folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "nats"
    name = context or _selected(folder)
    found = _read(folder, name) if name else NatsContext()
    if server:
        return NatsContext(**{**{field: getattr(found, field) for field in NatsContext.__slots__}, "url": server})
    return found


def _selected(folder: Path) -> str:
    try:
        return (folder / "context.txt").read_text().strip()
    except OSError:
        return ""


def _read(folder: Path, name: str) -> NatsContext:
    if "/" in name or name.startswith("."):
        raise UnknownContext(f"{name!r} is no name of a context")
    path = folder / "context" / f"{name}.json"
    try:
        return NatsContext.from_json(path.read_text())
    except (OSError, ValueError, TypeError) as error:
        raise UnknownContext(f"context {name!r} can't be read from {path}: {error}") from error


def _path(text: str) -> str:
    return str(Path(os.path.expandvars(text)).expanduser()) if text else ""
