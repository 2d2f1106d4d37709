"""The data location (``--data``), parsed alike by every command: a folder on this machine, or an object store's URL."""

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from conf.settings import StorageSettings

SCHEMES: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az"}
"""Schemes of object stores, and how we write them."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_STATE_HOME: Final = "XDG_STATE_HOME"


@dataclass(frozen=True, slots=True)
class DataLocation:
    """Where the tables are. A value that other processes can be given; its text has no secret."""

    uri: str
    """The absolute folder, or a URL without a slash at its end."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Storage options under delta-rs's names; empty for a folder."""

    def __str__(self) -> str:
        return self.uri

    @property
    def is_local(self) -> bool:
        """Whether it is a folder on this machine."""
        return "://" not in self.uri

    @property
    def folder(self) -> Path:
        """The folder; a programmer error for an object store."""
        assert self.is_local, self.uri
        return Path(self.uri)

    def table(self, name: str) -> str:
        """Return where a table is."""
        return f"{self.uri}/{name}"

    def with_settings(self, settings: "StorageSettings") -> "DataLocation":
        """Return the location with the options that the settings give its store."""
        return self if self.is_local else replace(self, options=storage_options(self.uri, settings))

    def local_folder(self, settings: "StorageSettings") -> Path:
        """Return the folder for what must lie on a local disk and may be lost: logs, credentials, Spark's checkpoint.

        The data folder itself, or one for each URL below ``storage.local_folder`` (default: the user's state folder).
        """
        if self.is_local:
            return self.folder
        state = Path(os.environ.get(_STATE_HOME) or Path.home() / ".local" / "state", "silt")
        readable = re.sub(r"[^A-Za-z0-9.-]+", "-", self.uri.partition("://")[2])[-40:].strip("-.")
        return (settings.local_folder or state).absolute() / f"{readable}-{sha256(self.uri.encode()).hexdigest()[:12]}"


def data_location(text: str) -> DataLocation:
    """Parse a folder or URL; raise ``ValueError`` with a sentence for a URL that names no place for tables."""
    if not _URL.match(text):
        return DataLocation(str(Path(text).resolve()))
    parts = urlsplit(text)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{shown} was given with a login or parameters: these are settings, see [storage]")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{shown} is a file on another machine")
        return DataLocation(str(Path(unquote(parts.path)).resolve()))
    scheme = SCHEMES.get(parts.scheme)
    if scheme is None:
        raise ValueError(f"{shown} is no place for tables: give a folder or an s3://, gs://, az:// or file:// URL")
    names = [name for name in parts.path.split("/") if name]
    if not parts.netloc:
        raise ValueError(f"{shown} names no bucket")
    if {".", ".."} & set(names):
        raise ValueError(f"{shown} has a part that is . or ..")
    return DataLocation("/".join((f"{scheme}://{parts.netloc}", *names)))


def location_argument(text: str) -> DataLocation:
    """Parse a ``--data`` argument for argparse, which prints an ``ArgumentTypeError``'s text."""
    try:
        return data_location(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def storage_options(url: str, settings: "StorageSettings") -> dict[str, str]:
    """Return the settings as delta-rs's storage options; what is unset is left to the cloud's own credential chain."""
    key, secret, token = (
        None if value is None else value.get_secret_value()
        for value in (settings.access_key_id, settings.secret_access_key, settings.session_token)
    )
    virtual = settings.addressing_style == "virtual" or (settings.addressing_style == "auto" and not settings.endpoint)
    of_scheme: dict[str, dict[str, str | None]] = {
        "s3": {
            "AWS_ENDPOINT_URL": settings.endpoint,
            "AWS_REGION": settings.region,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_SESSION_TOKEN": token,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(virtual).lower(),
        },
        "gs": {},
        "az": {
            "AZURE_STORAGE_ACCOUNT_NAME": key,
            "AZURE_STORAGE_ACCOUNT_KEY": secret,
            "AZURE_STORAGE_ENDPOINT": settings.endpoint,
        },
    }
    chosen = of_scheme[urlsplit(url).scheme] | {
        "allow_http": "true" if settings.allow_http else None,
        "timeout": f"{settings.timeout_seconds:g}s",
        "connect_timeout": f"{settings.connect_timeout_seconds:g}s",
    }
    return {name: value for name, value in chosen.items() if value is not None}
