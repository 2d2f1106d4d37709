"""The relay between a mirror and an origin that its hub does not reach."""

import json

from api.moving.following import way_by_relay
from api.moving.relay import Relay
from ingest.origins.origin_messages import read_delivery
from ingest.protocol.wire_protocol import WireMessage

PREFIX = way_by_relay("nats://there:4222", "$JS.API")
ROOT = PREFIX.root.encode()
WANTED = b'{"stream_name":"S","config":{"name":"JS_MIRROR_x","direct":true}}'
DELIVER = ROOT + b".DELIVER.M.abc"


def relay() -> Relay:
    """One to an origin without a domain."""
    return Relay(PREFIX, "$JS.API", ("S",), nonce="n")


def begun(one: Relay, number: int = 1) -> None:
    """Let a mirror ask for its consumer, the first one or another, and the origin answer."""
    asked = WireMessage(ROOT + b".API.CONSUMER.CREATE.S", b"_INBOX.1", b"", WANTED)
    head = b"PUB $JS.API.CONSUMER.CREATE.S %b.ANSWER.n.%d %d\r\n" % (ROOT, number, len(WANTED))
    assert one.to_origin(asked) == head + WANTED + b"\r\n"
    told = {"stream_name": "S", "name": f"M-{number}", "config": {"deliver_subject": DELIVER.decode()}}
    answer = json.dumps(told).encode()
    said = one.to_hub(WireMessage(ROOT + b".ANSWER.n.%d" % number, b"", b"", answer))
    assert said == b"PUB _INBOX.1 %d\r\n%b\r\n" % (len(answer), answer)
    assert one.begun == [("S", DELIVER)] * number


def test_a_message_comes_as_the_origin_has_it() -> None:
    """Header and payload byte for byte, and a reply that tells the mirror what a leaf's would."""
    one = relay()
    begun(one)
    header = b"NATS/1.0\r\nA:  b\r\na: c\r\n\r\n"
    ack = b"$JS.ACK.S.M-1.1.7.3.1700000000000000000.2"
    frame = one.to_hub(WireMessage(b"orders.new", ack, header, b"\x00x"))
    head, rest = frame.split(b"\r\n", 1)
    word, subject, reply, *sizes = head.split(b" ")
    assert (word, subject, sizes) == (b"HPUB", DELIVER, [b"%d" % len(header), b"%d" % (len(header) + 2)])
    assert rest == header + b"\x00x\r\n"
    told = read_delivery(WireMessage(subject, reply, header, b"\x00x"))
    assert told is not None
    assert (told.consumer, told.seq, told.consumer_seq, told.pending, told.subject) == ("M-1", 7, 3, 2, "orders.new")


def test_an_earlier_consumer_of_a_mirror_is_forgotten() -> None:
    """A mirror begins a new one whenever it has heard nothing: of those before nothing is kept, nor handed on."""
    one = relay()
    begun(one)
    begun(one, 2)
    acks = [b"$JS.ACK.%bS.M-%d.1.7.3.1.2" % (domain, number) for domain in (b"", b"d.h.") for number in (1, 2)]
    acks[2:] = [ack + b".x" for ack in acks[2:]]
    assert [bool(one.to_hub(WireMessage(b"s", ack, b"", b""))) for ack in acks] == [False, True, False, True]
    assert not one.to_hub(WireMessage(b"s", b"$JS.ACK.", b"", b""))


def test_flow_control_goes_there_and_back() -> None:
    """A request's reply, and one that a heartbeat names, lead back to the origin's own subject."""
    one = relay()
    begun(one)
    asked = one.to_hub(WireMessage(DELIVER, b"$JS.FC.S.M-1.x", b"NATS/1.0 100 FlowControl Request\r\n\r\n", b""))
    reply = asked.split(b" ")[2]
    assert one.to_origin(WireMessage(reply, b"", b"", b"")) == b"PUB $JS.FC.S.M-1.x 0\r\n\r\n"
    stalled = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: $JS.FC.S.M-1.y\r\n\r\n"
    assert ROOT + b".REPLY.$JS.FC.S.M-1.y" in one.to_hub(WireMessage(DELIVER, b"", stalled, b""))


def test_nothing_else_of_the_origin_is_open() -> None:
    """Only what a mirror asks for is handed on; answers that nobody waits for and unknown consumers are dropped."""
    one = relay()
    for verb, body in (
        (b"STREAM.DELETE.S", b""),
        (b"CONSUMER.MSG.NEXT.S.c", b""),
        (b"CONSUMER.DELETE.S.billing", b""),
        (b"CONSUMER.DELETE.S", b""),
        (b"CONSUMER.CREATE.OTHER", WANTED),
        (b"CONSUMER.CREATE.S", b"{}"),
        (b"CONSUMER.CREATE.S", WANTED.replace(b"JS_MIRROR_x", b"billing")),
        (b"CONSUMER.CREATE.S", WANTED.replace(b"true", b"false")),
    ):
        assert one.to_origin(WireMessage(ROOT + b".API." + verb, b"_INBOX.1", b"", body)) == b"", verb
    assert one.to_origin(WireMessage(ROOT + b".API.CONSUMER.DELETE.S.JS_MIRROR_x", b"_INBOX.1", b"", b""))
    for subject in (b"orders.new", b"$JS.API.STREAM.DELETE.S"):
        assert one.to_origin(WireMessage(ROOT + b".REPLY." + subject, b"", b"", b"x")) == b""
    assert one.to_hub(WireMessage(ROOT + b".ANSWER.n.9", b"", b"", b"{}")) == b""
    assert one.to_hub(WireMessage(b"s", b"$JS.ACK.S.other.1.1.1.1.0", b"", b"")) == b""


def test_replies_of_clients_are_no_deliveries() -> None:
    """A reply that only contains the words is none."""
    assert read_delivery(WireMessage(b"d", b"x.$JS.ACK.S.M-1.1.7.3.1.2", b"", b"")) is None
    assert read_delivery(WireMessage(b"d", b"$SILT.ORIGIN.x.REPLY.none", b"", b"")) is None
