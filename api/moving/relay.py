"""A relay between a mirror's hub and its origin's server, where neither server reaches the other. Pure.

To Silt it is the origin: requests of the mirror go there under the relay's prefix, and what the origin's consumer
delivers comes back so, byte for byte. Only one thing differs: a client may not send on with ``$JS.ACK.…`` as the reply,
so replies of the origin stand behind the prefix. Whatever is lost on the way, the mirror notices and asks for again.
"""

import json
from collections import OrderedDict
from collections.abc import Collection
from typing import Final, NamedTuple

from api.moving.moved_config import OriginPrefixes
from ingest.origins.origin_messages import RELAYED, header_value
from ingest.protocol.client_protocol import encode_publish
from ingest.protocol.wire_protocol import WireMessage

_ACK: Final = b"$JS.ACK."
_FLOW: Final = b"$JS.FC."
_STALLED: Final = "Nats-Consumer-Stalled"
_ANSWERS_MAX: Final = 1_000
_MIRRORS: Final = "JS_MIRROR_"
"""What the names of mirrors' consumers begin with."""


class RelayPrefix(NamedTuple):
    """The subjects of a relay; its token is the same each time that it is started for an origin."""

    token: str

    @property
    def root(self) -> str:
        """What they all begin with."""
        return f"{RELAYED}{self.token}"

    @property
    def external(self) -> OriginPrefixes:
        """What a mirror that goes through it has."""
        return OriginPrefixes(f"{self.root}.API", f"{self.root}.DELIVER")

    @property
    def at_hub(self) -> tuple[bytes, bytes]:
        """Subjects that it listens to at the mirror's hub."""
        return f"{self.root}.API.>".encode(), f"{self.root}.REPLY.>".encode()


class Begun(NamedTuple):
    """A consumer of the origin that begins to deliver when its subject is listened to."""

    stream: str
    deliver_subject: bytes


class Relay:
    """What becomes of each message of the two links."""

    def __init__(self, prefix: RelayPrefix, api_prefix: str, streams: Collection[str], *, nonce: str) -> None:
        """``api_prefix`` is the origin's own; ``nonce`` distinguishes this process from others.

        Requests of mirrors of these ``streams`` are handed on, and nothing else of the origin's account.
        """
        self._streams = frozenset(streams)
        root = prefix.root.encode()
        self._api, self._reply = root + b".API.", root + b".REPLY."
        self._answer = root + b".ANSWER." + nonce.encode() + b"."
        self._there = api_prefix.encode() + b"."
        self._number = 0
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._delivers: dict[bytes, tuple[bytes, bytes]] = {}
        """The newest consumer of each stream, and what it delivers to."""
        self.begun: list[Begun] = []
        """Consumers that the origin has made since the list was last emptied."""

    @property
    def at_origin(self) -> bytes:
        """The subject that it listens to at the origin, beside those of consumers."""
        return self._answer + b"*"

    def to_origin(self, message: WireMessage) -> bytes:
        """Return the frame to send to the origin for a message of the hub; empty for none."""
        subject, reply, header, payload = message
        if subject.startswith(self._reply):
            back = subject.removeprefix(self._reply)
            return encode_publish(back, payload, header=header) if back.startswith(_FLOW) else b""
        verb = subject.removeprefix(self._api)
        if not self._is_a_mirrors(verb.decode(errors="replace").split("."), payload):
            return b""
        self._number += 1
        answer = self._answer + b"%d" % self._number
        self._answers[answer] = reply
        if len(self._answers) > _ANSWERS_MAX:
            self._answers.popitem(last=False)
        return encode_publish(self._there + verb, payload, header=header, reply=answer)

    def to_hub(self, message: WireMessage) -> bytes:
        """Return the frame to send to the hub for a message of the origin; empty for none."""
        subject, reply, header, payload = message
        if subject.startswith(self._answer):
            answer_to = self._answers.pop(subject, b"")
            self._note(payload)
            return encode_publish(answer_to, payload, header=header) if answer_to else b""
        if reply.startswith(_ACK):
            stream, consumer = _consumer_of(reply)
            newest, deliver = self._delivers.get(stream, (None, b""))
            if newest != consumer:
                return b""
            return encode_publish(deliver, payload, header=header, reply=self._reply + reply + b"@" + subject)
        if (stalled := header_value(header, _STALLED)) and not payload:
            header = header.replace(stalled.encode(), self._reply + stalled.encode())
        return encode_publish(subject, payload, header=header, reply=reply and self._reply + reply)

    def _is_a_mirrors(self, verb: list[str], payload: bytes) -> bool:
        """Whether a mirror of one of the streams makes or deletes its consumer by this request."""
        if len(verb) < 3 or verb[0] != "CONSUMER" or verb[2] not in self._streams:
            return False
        if verb[1] != "CREATE":
            return verb[1] == "DELETE" and len(verb) > 3 and verb[3].startswith(_MIRRORS)
        try:
            config = json.loads(payload)["config"]
            return bool(config["direct"]) and str(config["name"]).startswith(_MIRRORS)
        except (ValueError, LookupError, TypeError):
            return False

    def _note(self, payload: bytes) -> None:
        """Note what a new consumer delivers to: its messages come with their own subjects."""
        try:
            told = json.loads(payload)
            stream, name, deliver = told["stream_name"], told["name"], told["config"]["deliver_subject"]
        except (ValueError, LookupError, TypeError):
            return
        self._delivers[str(stream).encode()] = str(name).encode(), str(deliver).encode()
        self.begun.append(Begun(stream, str(deliver).encode()))


def _consumer_of(reply: bytes) -> tuple[bytes, bytes]:
    """Return stream and consumer of a delivery's reply."""
    tokens = [*reply.split(b"."), b"", b"", b""]
    first = 2 if len(tokens) == 12 else 4
    return tokens[first], tokens[first + 1]
