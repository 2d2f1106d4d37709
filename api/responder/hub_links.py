"""The links of a process to its hub, made from its options and the settings."""

import random
from typing import Protocol

from api.responder.nats_access import credentials, leaf_credentials, tls
from conf.settings import NatsSettings, Settings
from ingest.links.attachment import Access
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.links.link_log import report_link, report_oversize
from ingest.links.link_session import OnMessages
from ingest.protocol.credentials import CredentialSource
from ingest.protocol.leaf_connect import LeafIdentity
from ingest.protocol.link import OnStatus, parse_endpoints


class HubOptions(Protocol):
    """The addresses that a process attaches to."""

    @property
    def nats(self) -> str:
        """URL of the hub's listener for clients."""

    @property
    def leaf(self) -> str:
        """URL of its listener for leafnodes."""

    @property
    def domain(self) -> str:
        """Domain of our JetStream; empty for none."""

    @property
    def api_over_leaf(self) -> bool:
        """Whether the hub lets the API cross the leaf link."""


def leaf_link(
    options: HubOptions, settings: Settings, name: str, jitter: random.Random, on: tuple[OnMessages, OnStatus]
) -> LeafLink:
    """Return the leaf link of this name; ``on`` are the callbacks for messages and status."""
    access = _access(options.leaf, 7422, leaf_credentials(settings.nats), settings.nats)
    receive, on_status = on
    link = LeafLink(access, LeafIdentity(name, name, options.domain), receive, jitter=jitter, on_status=on_status)
    link.on_oversize = report_oversize
    return link


def client_link(
    options: HubOptions, settings: Settings, name: str, jitter: random.Random, receive: OnMessages
) -> ClientLink | None:
    """Return the client link of this name; None if the leaf link receives everything."""
    if options.api_over_leaf or options.domain:
        return None
    access = _access(options.nats, 4222, credentials(settings.nats), settings.nats)
    return ClientLink(access, name, receive, jitter=jitter, on_status=report_link("client"))


def _access(url: str, default_port: int, login: CredentialSource, settings: NatsSettings) -> Access:
    endpoints = parse_endpoints(url, default_port=default_port)
    return Access(endpoints, login, tls(settings), connect_timeout_seconds=settings.connect_timeout_seconds)
