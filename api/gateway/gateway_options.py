"""The gateway's command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from api.process.process_arguments import add_data_argument, add_nats_arguments, settings_under
from conf.data_location import DataLocation
from conf.settings import Settings


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The arguments of the command line over the settings."""

    nats: str
    leaf: str
    data: DataLocation
    domain: str
    api_over_leaf: bool


def parse(arguments: Sequence[str] | None) -> tuple[GatewayOptions, Settings]:
    """Parse the command line over the settings; exits with status 2 if either is wrong."""
    parser = argparse.ArgumentParser(prog="silt gateway", description="Join a NATS server and serve its JetStream API.")
    add_data_argument(parser)
    add_nats_arguments(parser)
    given = parser.parse_args(arguments)
    settings = settings_under(parser, given)
    nats = settings.nats
    data = given.data.with_settings(settings.storage)
    return GatewayOptions(nats.url, nats.leaf_url, data, nats.domain or "", nats.api_over == "leaf"), settings
