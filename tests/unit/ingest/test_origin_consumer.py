"""A copy's consumer at its origin: exactly each message, in order, whatever is lost between the two, or restarted."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ExternalStream, SourceConsumer, StreamSource
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import links_of
from ingest.origins.origin_consumer import CopyPhase, OriginConsumer
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.copied_messages import store_copies
from ingest.publishing.group import Group

SOURCE = StreamSource("O", external=ExternalStream("$JS.hub.API"))
MIRROR = StreamConfig("C", mirror=SOURCE)
GATHERS = StreamConfig("C", sources=(SOURCE,))


@dataclass
class Origin:
    """A stream elsewhere, with the newest consumer that was asked of it."""

    identity: str = "first"
    messages: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    next_seq: int = 1
    consumer_seq: int = 0
    consumers: int = 0
    deliver: bytes = b""

    def publish(self) -> None:
        """Store a message."""
        self.last += 1
        self.messages[self.last] = f"{self.identity} {self.last}".encode()

    def ask(self, frame: bytes) -> WireMessage:
        """Answer a request."""
        lines, _, rest = frame.partition(b"\r\n")
        _, _, reply, header_length, _ = lines.split(b" ")
        header, body = rest[: int(header_length)], rest[int(header_length) : -2]
        asked = header.partition(b"Identity: ")[2].strip().decode()
        if asked not in {"", self.identity}:
            error = {"code": 400, "err_code": 10225, "description": "another"}
            return WireMessage(reply, b"", b"", json.dumps({"error": error}).encode())
        config = json.loads(body)["config"]
        self.consumers += 1
        self.consumer_seq, self.deliver = 0, config["deliver_subject"].encode()
        wanted = [seq for seq in self.messages if seq >= config.get("opt_start_seq", 1)]
        self.next_seq = min(wanted, default=self.last + 1)
        answer = {"name": f"c{self.consumers}", "delivered": {"stream_seq": self.next_seq - 1}, "config": config}
        told = f"NATS/1.0\r\nNats-Stream-Identity: {self.identity}\r\n\r\n".encode()
        return WireMessage(reply, b"", told, json.dumps(answer).encode())

    def next_message(self) -> WireMessage | None:
        """Deliver the next message."""
        wanted = [seq for seq in self.messages if seq >= self.next_seq]
        if not wanted:
            return None
        seq = wanted[0]
        self.next_seq, self.consumer_seq = seq + 1, self.consumer_seq + 1
        reply = f"$JS.ACK.O.c{self.consumers}.1.{seq}.{self.consumer_seq}.{seq * 10}.{len(wanted) - 1}@o.{seq % 3}"
        return WireMessage(self.deliver, reply.encode(), b"", self.messages[seq])

    def beat(self) -> WireMessage:
        """Send a heartbeat."""
        header = f"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {self.consumer_seq}\r\n\r\n"
        return WireMessage(self.deliver, b"", header.encode(), b"")


class Copy:
    """A copying stream, and the process that copies."""

    def __init__(self, config: StreamConfig) -> None:
        self.catalog, self.group = Catalog(domain="silt"), Group()
        self.state = self.catalog.create(config, now_ns=1, rows=self.group.rows)
        self.now = 0.0
        self.tokens = 0
        self.replies: list[bytes] = []
        self.caught_up = False
        self.start()

    def start(self) -> None:
        """Begin with what is stored, as after a kill."""
        self.state.heard.clear()
        link = links_of(self.state)[0]
        self.consumer = OriginConsumer(link, domain="silt", new_id=self.new_id, now=self.now)

    def new_id(self) -> str:
        """The next token."""
        self.tokens += 1
        return f"t{self.tokens:08}"

    def look(self, origin: Origin) -> None:
        """Ask for a consumer if it is time, and hear the answer."""
        self.now += 2.5
        for frame in self.consumer.look(self.now):
            self.hear(origin.ask(frame))

    def hear(self, *messages: WireMessage) -> None:
        """Take what is subscribed to, and store it."""
        taken = self.consumer.take([one for one in messages if one.subject in self.consumer.subjects], self.now)
        if taken.begins:
            self.state.index.restore_bounds(first_seq=taken.begins, last_seq=taken.begins - 1, last_ts=0)
        if len(taken.run):
            link, identity = self.consumer.link, self.consumer.identity
            done = store_copies(self.catalog, link, taken.run, identity=identity, now_ns=5, group=self.group)
            assert done == len(taken.run)
            self.consumer.heard.recreated = False
        self.replies += taken.replies
        self.caught_up = self.caught_up or taken.caught_up

    @property
    def stored(self) -> list[tuple[int, bytes]]:
        """Sequences and payloads in the order of their rows."""
        rows = self.group.rows
        return [(rows.seq[at], rows.data[at]) for at in range(len(rows)) if rows.subject[at].startswith("o.")]


def test_the_way_of_a_message() -> None:
    """Asked for, delivered, stored with the origin's sequence, time and subject; flow control tells how far."""
    origin, copy = Origin(), Copy(MIRROR)
    for _ in range(3):
        origin.publish()
    del origin.messages[1]
    assert copy.consumer.phase is CopyPhase.WAITS
    copy.look(origin)
    assert copy.consumer.phase is CopyPhase.HEARS
    assert copy.state.index.first_seq == 2
    first, second = origin.next_message(), origin.next_message()
    assert first is not None
    assert second is not None
    copy.hear(
        first, second, WireMessage(origin.deliver, b"$JS.FC.O.c1.x", b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"")
    )
    assert copy.stored == [(2, b"first 2"), (3, b"first 3")]
    assert copy.group.rows.ts_ns[-2:] == [20, 30]
    assert copy.replies == [
        b"HMSG $JS.FC.O.c1.x 56 56\r\nNATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 3\r\n\r\n\r\n"
    ]
    assert copy.consumer.heard.lag == 0


def test_a_gap_leads_to_a_new_consumer() -> None:
    """What comes behind a lost message is dropped, and asked for again from the lost one on."""
    origin, copy = Origin(), Copy(GATHERS)
    for _ in range(4):
        origin.publish()
    copy.look(origin)
    messages = [origin.next_message() for _ in range(4)]
    copy.hear(*(one for place, one in enumerate(messages) if one is not None and place != 1))
    assert [data for _, data in copy.stored] == [b"first 1"]
    assert copy.consumer.phase is CopyPhase.WAITS
    assert copy.consumer.subjects == frozenset()
    copy.look(origin)
    assert origin.next_seq == 2


@pytest.mark.parametrize("config", [MIRROR, GATHERS])
def test_a_mirror_has_caught_up_when_few_are_left(config: StreamConfig) -> None:
    """At the first message behind which its origin has fewer than ten; a source never answers for an origin."""
    origin, copy = Origin(), Copy(config)
    for _ in range(20):
        origin.publish()
    copy.look(origin)
    found = []
    for _ in range(20):
        message = origin.next_message()
        assert message is not None
        copy.hear(message)
        found.append(copy.caught_up)
    assert found == [config is MIRROR and seq > 10 for seq in range(1, 21)]


def test_heartbeats_tell_of_losses_and_their_absence_of_an_end() -> None:
    """A heartbeat that counts more messages than came, or none for ten seconds."""
    origin, copy = Origin(), Copy(MIRROR)
    copy.look(origin)
    origin.publish()
    origin.next_message()
    copy.hear(origin.beat())
    assert copy.consumer.phase is CopyPhase.WAITS
    copy.look(origin)
    assert copy.consumer.phase is CopyPhase.HEARS
    copy.now += 9
    assert copy.consumer.look(copy.now) == ()
    assert copy.consumer.phase is CopyPhase.HEARS
    copy.now += 1
    copy.consumer.look(copy.now)
    assert copy.consumer.phase is CopyPhase.WAITS


def test_an_origin_that_refuses_is_asked_again_later() -> None:
    """Its error is shown, and goes with the first success; each failed try makes the next one wait longer."""
    copy = Copy(MIRROR)
    refused = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    for tries in (1, 2, 3):
        copy.now += 60
        assert len(copy.consumer.look(copy.now)) == 1
        copy.hear(WireMessage(next(iter(copy.consumer.subjects)), b"", b"", refused))
        assert copy.consumer.heard.error == {"code": 404, "err_code": 10059, "description": "stream not found"}
        assert copy.consumer.look(copy.now + 2 + tries - 0.1) == ()
    copy.now += 60
    copy.look(Origin())
    assert copy.consumer.heard.error is None


def test_an_older_origin_is_asked_by_its_level() -> None:
    """First with the stream's identity, then without, then without what the consumer is for."""
    copy = Copy(GATHERS)
    refused = b'{"error":{"code":412,"err_code":10185,"description":"JetStream minimum api level required"}}'
    headers = []
    frames = copy.consumer.look(3)
    for _ in range(3):
        headers.append((b"Level: 5" in frames[0], b"Level: 4" in frames[0], b'"sourcing":true' in frames[0]))
        inbox = next(iter(copy.consumer.subjects))
        frames = copy.consumer.take([WireMessage(inbox, b"", b"", refused)], 3).frames
    assert headers == [(True, False, True), (False, True, True), (False, False, False)]
    assert frames == ()
    assert copy.consumer.phase is CopyPhase.WAITS


@pytest.mark.parametrize("mirrors", [True, False])
def test_a_named_consumer_must_acknowledge_by_flow_control(mirrors: bool) -> None:
    """Then it is heard on its own subject, and never deleted; another ack policy is an error that is shown."""
    source = SOURCE._replace(consumer=SourceConsumer("DUR", "to.me"))
    copy = Copy(StreamConfig("C", mirror=source) if mirrors else StreamConfig("C", sources=(source,)))
    for policy, subject in (("none", None), ("flow_control", b"to.me")):
        copy.now += 60
        (frame,) = copy.consumer.look(copy.now)
        assert b" $JS.hub.API.CONSUMER.RESET.O.DUR " in frame
        answer = json.dumps({"name": "DUR", "config": {"ack_policy": policy}}).encode()
        copy.hear(WireMessage(next(iter(copy.consumer.subjects)), b"", b"", answer))
        assert copy.consumer.subjects == (frozenset((subject,)) if subject else frozenset())
        shown = copy.consumer.heard.error
        assert (shown["err_code"] if shown else 0) == (0 if subject else 10214 if mirrors else 10217)
    assert copy.consumer.farewell() == b""


def test_flow_control_that_does_not_arrive_is_told() -> None:
    """A stalled origin is answered, and three times the same stall is an error until messages come."""
    origin, copy = Origin(), Copy(MIRROR)
    copy.look(origin)
    stalled = WireMessage(origin.deliver, b"", b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: fc\r\n\r\n", b"")
    for _ in range(3):
        copy.hear(stalled)
    assert copy.replies == [b"LMSG fc 0\r\n\r\n"] * 3
    assert copy.consumer.heard.error is not None
    assert copy.consumer.heard.error["err_code"] == 10228
    copy.hear(origin.beat())
    assert copy.consumer.heard.error is None


STEPS = st.lists(
    st.sampled_from(["publish", "publish", "deliver", "deliver", "lose", "beat", "look", "delete", "kill"])
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, mirrors=st.booleans())
def test_each_message_once_whatever_happens(steps: list[str], mirrors: bool) -> None:
    """Losses, restarts and deletions at any time: in the end all that the origin has is there, in order, once."""
    origin, copy = Origin(), Copy(MIRROR if mirrors else GATHERS)
    deleted: set[bytes] = set()
    for step in steps:
        if step == "delete" and origin.messages:
            deleted.add(origin.messages.pop(min(origin.messages)))
        else:
            do(step, origin, copy)
    for _ in range(3):
        do("beat", origin, copy)
        copy.now += 20
        do("look", origin, copy)
        do("look", origin, copy)
        while (message := origin.next_message()) is not None:
            copy.hear(message)
    payloads = [data for _, data in copy.stored]
    assert payloads == sorted(set(payloads), key=lambda data: int(data.split()[1]))
    assert set(origin.messages.values()) <= set(payloads) <= set(origin.messages.values()) | deleted
    if mirrors:
        assert all(data == f"first {seq}".encode() for seq, data in copy.stored)


def do(step: str, origin: Origin, copy: Copy) -> None:
    """One step of the two."""
    match step:
        case "publish":
            origin.publish()
        case "kill":
            copy.start()
        case "look":
            copy.look(origin)
        case "beat":
            copy.hear(origin.beat())
        case "deliver" | "lose":
            message = origin.next_message()
            if message is not None and step == "deliver":
                copy.hear(message)


def test_another_origin_of_the_name_is_copied_from_its_beginning() -> None:
    """A source that was recreated: its server refuses the old identity, and the copy begins anew."""
    origin, copy = Origin(), Copy(GATHERS)
    for _ in range(3):
        origin.publish()
    for _ in range(2):
        copy.look(origin)
        while (message := origin.next_message()) is not None:
            copy.hear(message)
        origin = Origin("second")
        origin.publish()
        copy.start()
    copy.look(origin)
    copy.now += 20
    copy.look(origin)
    while (message := origin.next_message()) is not None:
        copy.hear(message)
    assert [data for _, data in copy.stored] == [b"first 1", b"first 2", b"first 3", b"second 1"]
