"""Which subjects the gateway takes in, and on which of its links.

A hub does not let a leaf have ``$JS.API.>``, ``$KV.>`` and ``$OBJ.>`` unless its ``default_js_domain`` says so; our own
hub does say so, and then everything comes over the leaf link. At any other hub the client link takes those. In a domain
only ``$JS.<domain>.API.>`` is ours (it never is denied), because ``$JS.API.>`` belongs to the hub's own JetStream; the
hub wraps puts of keys into it. Direct Get is a queue group, so that other responders may share the load.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api.responder.responder_links import CLIENT_QUEUE_GROUP
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink

DIRECT_GET_QUEUE: Final = b"_sys_"
"""Queue group of all who answer Direct Get over a leaf link: nats-server's own name for it."""
_ENDPOINTS: Final = ("*", "STREAM.>", "CONSUMER.>", "ACCOUNT.>", "META.>", "SERVER.>")
_DENIED: Final = ("$KV.", "$OBJ.")


@dataclass(slots=True)
class LinkSubjects:
    """The stream subjects that are followed, kept in step with the catalog's."""

    leaf: LeafLink
    client: ClientLink | None
    """None when the leaf link takes everything."""
    domain: str = ""
    followed: frozenset[str] = frozenset()
    acked: frozenset[str] = frozenset()
    """Streams whose acks are taken in."""

    def follow_endpoints(self) -> None:
        """Take in the requests of the API proper: not what others may answer, nor puts of keys."""
        self._follow_api([(f"{self._prefix}{name}", b"") for name in _ENDPOINTS])

    def follow_api(self) -> None:
        """Take in the API's requests."""
        self._follow_api(self._api_subjects())

    def _follow_api(self, wanted: Iterable[tuple[str, bytes]]) -> None:
        for subject, queue in wanted:
            if self.client is not None and not self.domain:
                # nats-server refuses its own group's name to clients.
                self.client.subscribe(subject.encode(), queue and CLIENT_QUEUE_GROUP)
            else:
                self.leaf.subscribe(subject.encode(), queue)

    def follow(self, subjects: Iterable[str], *, streams: Iterable[str]) -> None:
        """Take these stream subjects in, and the acks of these streams, and no others."""
        self._follow_acks(frozenset(streams))
        wanted = frozenset(subjects)
        for subject in self.followed - wanted:
            if self._by_client(subject):
                assert self.client is not None
                self.client.unsubscribe(subject.encode())
            else:
                self.leaf.unsubscribe(subject.encode())
        for subject in wanted - self.followed:
            if self._by_client(subject):
                assert self.client is not None
                self.client.subscribe(subject.encode())
            else:
                self.leaf.subscribe(subject.encode())
        self.followed = wanted

    def unfollow_all(self) -> None:
        """Take in nothing more."""
        for subject, queue in self._api_subjects():
            if self.client is not None and not self.domain:
                self.client.unsubscribe(subject.encode(), queue and CLIENT_QUEUE_GROUP)
            else:
                self.leaf.unsubscribe(subject.encode(), queue)
        self.follow((), streams=())

    def _follow_acks(self, streams: frozenset[str]) -> None:
        """Acks and flow control always come over the leaf link: no hub denies them."""
        for stream in self.acked - streams:
            self.leaf.unsubscribe(f"$JS.ACK.{stream}.>".encode())
            self.leaf.unsubscribe(f"$JS.FC.{stream}.>".encode())
        for stream in sorted(streams - self.acked):
            self.leaf.subscribe(f"$JS.ACK.{stream}.>".encode())
            self.leaf.subscribe(f"$JS.FC.{stream}.>".encode())
        self.acked = streams

    def _api_subjects(self) -> list[tuple[str, bytes]]:
        prefix = self._prefix
        wanted = [(f"{prefix}{name}", b"") for name in _ENDPOINTS]
        if self.domain:
            wanted += [(f"{prefix}$KV.>", b""), (f"{prefix}$OBJ.>", b"")]
        return [*wanted, (f"{prefix}DIRECT.GET.>", DIRECT_GET_QUEUE)]

    @property
    def _prefix(self) -> str:
        return f"$JS.{self.domain}.API." if self.domain else "$JS.API."

    def _by_client(self, subject: str) -> bool:
        return self.client is not None and not self.domain and subject.startswith(_DENIED)
