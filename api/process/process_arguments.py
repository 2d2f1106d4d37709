"""The arguments common to the long-running processes, and the settings that they override.

An argument wins over the environment, and that over the file (:mod:`conf.settings`). Every user of the machine can read
arguments, so a URL with a login is refused there; the environment and the file may have one.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

from conf.data_location import location_argument
from conf.setting_sources import DATA_VARIABLE, SettingsError
from conf.settings import Settings, load_settings


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``, whose default is the variable ``SILT_DATA``."""
    found = os.environ.get(DATA_VARIABLE)
    parser.add_argument(
        "--data",
        metavar="LOCATION",
        type=location_argument,
        default=found,
        required=not found,
        help=f"folder or object store's URL of the tables; default from {DATA_VARIABLE}",
    )


def add_nats_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the addresses of the NATS server; each overrides the setting that its help names."""
    default = "(default: the setting {})"
    parser.add_argument("--nats", metavar="URL", help=f"client port of the NATS server {default.format('nats.url')}")
    parser.add_argument("--leaf", metavar="URL", help=f"its leafnode port {default.format('nats.leaf_url')}")
    parser.add_argument("--domain", help="serve $JS.<domain>.API.> beside a server's own JetStream")
    parser.add_argument(
        "--api-over",
        choices=("client", "leaf"),
        help="link for $JS.API.> and $KV.>: leaf only where the server lets them cross (silt up's does)",
    )


def settings_under(
    parser: argparse.ArgumentParser, given: argparse.Namespace, **sections: Mapping[str, Any]
) -> Settings:
    """Return the settings with the arguments over them; exits with status 2 if one is wrong.

    ``given`` has what :func:`add_nats_arguments` added; ``sections`` are further arguments as settings.
    """
    for name, urls in (("--nats", given.nats), ("--leaf", given.leaf)):
        if urls and has_secret(urls):
            _refuse_secret(parser, name)
    nats = {"url": given.nats, "leaf_url": given.leaf, "domain": given.domain, "api_over": given.api_over}
    try:
        return load_settings(nats=nats, **sections)
    except SettingsError as error:
        parser.error(str(error))


def has_secret(urls: str) -> bool:
    """Whether one of the URLs, separated by commas, has a login."""
    return any("@" in urlsplit(url if "://" in url else f"nats://{url}").netloc for url in urls.split(","))


def _refuse_secret(parser: argparse.ArgumentParser, name: str) -> NoReturn:
    parser.error(
        f"argument {name}: every user of this machine can read arguments, so none may hold a user or password: "
        "set SILT_NATS__USER and SILT_NATS__PASSWORD, or the whole address as SILT_NATS__URL or SILT_NATS__LEAF_URL"
    )
