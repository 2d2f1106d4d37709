"""The subjects that the gateway subscribes to, and on which of its links.

A hub denies ``$JS.API.>``, ``$KV.>`` and ``$OBJ.>`` to a leaf unless its ``default_js_domain`` allows them; our own hub
does, and then everything arrives over the leaf link. At any other hub these arrive over the client link. In a domain
only ``$JS.<domain>.API.>`` is ours (and never denied), as ``$JS.API.>`` belongs to the hub's own JetStream; the hub
wraps puts of keys into it. Direct Get is a queue group, so that other responders share the load.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api.responder.responder_links import CLIENT_QUEUE_GROUP
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink

DIRECT_GET_QUEUE: Final = b"_sys_"
"""Queue group of the Direct Get responders on leaf links: nats-server's own name."""
_ENDPOINTS: Final = ("*", "STREAM.>", "CONSUMER.>", "CUT.>", "ACCOUNT.>", "META.>", "SERVER.>")
_DENIED: Final = ("$KV.", "$OBJ.")


@dataclass(slots=True)
class LinkSubjects:
    """The subscriptions to stream subjects and acks, which follow the catalog."""

    leaf: LeafLink
    client: ClientLink | None
    """None if the leaf link receives everything."""
    domain: str = ""
    followed: frozenset[str] = frozenset()
    acked: frozenset[str] = frozenset()
    """Streams whose acks are subscribed to."""

    def follow_endpoints(self) -> None:
        """Subscribe to the requests of the API proper, without Direct Get and puts of keys."""
        self._follow_api([(f"{self._prefix}{name}", b"") for name in _ENDPOINTS])

    def follow_api(self) -> None:
        """Subscribe to all requests of the API."""
        self._follow_api(self._api_subjects())

    def _follow_api(self, wanted: Iterable[tuple[str, bytes]]) -> None:
        for subject, queue in wanted:
            if self.client is not None and not self.domain:
                # nats-server refuses its own group's name to clients.
                self.client.subscribe(subject.encode(), queue and CLIENT_QUEUE_GROUP)
            else:
                self.leaf.subscribe(subject.encode(), queue)

    def follow(self, subjects: Iterable[str], *, streams: Iterable[str]) -> None:
        """Subscribe to exactly these stream subjects, and to the acks of these streams."""
        self._follow_acks(frozenset(streams))
        wanted = frozenset(subjects)
        for subject in self.followed - wanted:
            self._link_of(subject).unsubscribe(subject.encode())
        for subject in wanted - self.followed:
            self._link_of(subject).subscribe(subject.encode())
        self.followed = wanted

    def listen_to(self, subject: str) -> None:
        """Subscribe on the leaf link, for a transfer."""
        self.leaf.subscribe(subject.encode())

    def stop_listening(self, subject: str) -> None:
        """Unsubscribe."""
        self.leaf.unsubscribe(subject.encode())

    def unfollow_all(self) -> None:
        """End all subscriptions."""
        for subject, queue in self._api_subjects():
            if self.client is not None and not self.domain:
                self.client.unsubscribe(subject.encode(), queue and CLIENT_QUEUE_GROUP)
            else:
                self.leaf.unsubscribe(subject.encode(), queue)
        self.follow((), streams=())

    def _follow_acks(self, streams: frozenset[str]) -> None:
        """Subscribe to acks and flow control on the leaf link, to which no hub denies them."""
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

    def _link_of(self, subject: str) -> LeafLink | ClientLink:
        """Return the link over which a stream's subject arrives."""
        is_denied = not self.domain and subject.startswith(_DENIED)
        return self.client if is_denied and self.client is not None else self.leaf
