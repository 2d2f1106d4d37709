"""What copies ask origins for, and what they read of the replies: byte for byte nats-server 2.15's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ExternalStream, SourceConsumer, StreamSource, SubjectMapping
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import CopyLink, links_of
from delta_store.streams.stream_sources import SourcePosition, index_name
from delta_store.values.records import RowColumns
from ingest.origins import origin_request
from ingest.origins.origin_messages import header_value, read_answer, read_delivery
from ingest.origins.origin_request import OriginStart
from ingest.protocol.wire_protocol import WireMessage

HUB = ExternalStream("$JS.hub.API")


def link_of(*sources: StreamSource, mirror: StreamSource | None = None) -> CopyLink:
    """The first copy of a stream ``C``."""
    state = Catalog().create(StreamConfig("C", mirror=mirror, sources=sources), now_ns=1, rows=RowColumns())
    return links_of(state)[0]


def asked(link: CopyLink, *, level: int = 5) -> tuple[str, dict[str, Any]]:
    """Subject and configuration of a request."""
    subject, body = origin_request.create_request(
        link, domain="silt", start=OriginStart(), deliver_to="d", level=level, token="0123456789"
    )
    return subject, json.loads(body)["config"]


def test_a_mirror_asks_as_nats_server_does() -> None:
    """The whole request of a mirror: subject, stream and configuration."""
    link = link_of(mirror=StreamSource("O", external=HUB))
    subject, body = origin_request.create_request(
        link, domain="silt", start=OriginStart(7), deliver_to="$JS.M.x", level=4, token="t"
    )
    assert subject == "$JS.hub.API.CONSUMER.CREATE.O"
    assert json.loads(body) == {
        "stream_name": "O",
        "config": {
            "name": origin_request.consumer_name(link, "silt"),
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": 7,
            "ack_policy": "none",
            "ack_wait": 79_200_000_000_000,
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": 1_000_000_000,
            "deliver_subject": "$JS.M.x",
            "inactive_threshold": 10_000_000_000,
            "num_replicas": 0,
            "metadata": {"_nats.mirror.stream": "C", "_nats.mirror.acc": "$G", "_nats.mirror.domain": "silt"},
            "direct": True,
            "sourcing": True,
        },
    }


def test_filters_stand_in_the_subject_where_there_is_one() -> None:
    """One filter, given as such or by a transform, is in subject and body; several are in the body alone."""
    one, moved = StreamSource("O", filter_subject="a.>", external=HUB), SubjectMapping("b", "c")
    subject, config = asked(link_of(one))
    assert subject == f"$JS.hub.API.CONSUMER.CREATE.O.{config['name']}.a.>"
    assert config["filter_subject"] == "a.>"
    subject, config = asked(link_of(StreamSource("O", subject_transforms=(moved,), external=HUB)))
    assert (subject.rpartition(".")[2], config["filter_subject"]) == ("b", "b")
    two = StreamSource("O", subject_transforms=(moved, SubjectMapping("d", "")), external=HUB)
    subject, config = asked(link_of(two))
    assert (subject, config["filter_subjects"]) == ("$JS.hub.API.CONSUMER.CREATE.O", ["b", "d"])


def test_names_are_stable_and_tell_copies_of_one_origin_apart() -> None:
    """A name follows from the copying stream; of two sources of one name also from their filters."""
    alone = origin_request.consumer_name(link_of(StreamSource("O", external=HUB)), "silt")
    assert alone == origin_request.consumer_name(link_of(StreamSource("P", external=HUB)), "silt")
    assert alone != origin_request.consumer_name(link_of(StreamSource("O", external=HUB)), "")
    both = tuple(StreamSource("O", filter_subject=one, external=HUB) for one in "ab")
    names = {origin_request.consumer_name(link_of(*order), "silt") for order in (both, both[::-1])}
    assert len(names) == 2
    assert all(name.startswith("JS_SRC_") and len(name) == 15 for name in {alone, *names})


def test_older_origins_get_names_of_their_own() -> None:
    """A server below API level 4 takes no ``sourcing``, and each consumer has another name."""
    subject, config = asked(link_of(StreamSource("O", filter_subject="a", external=HUB)), level=0)
    assert "sourcing" not in config
    assert config["name"].endswith("_01234567")
    assert config["name"] in subject
    assert origin_request.request_header(0, "x") == b""
    assert origin_request.request_header(4, "x") == b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"
    assert b"Nats-Stream-Identity: x\r\n" in origin_request.request_header(5, "x")


def test_a_named_consumer_is_reset() -> None:
    """A copy through a consumer of the origin's asks for it by its name; a mirror without a level, as nats-server."""
    source = StreamSource("O", external=HUB, consumer=SourceConsumer("DUR", "to.me"))
    assert origin_request.reset_subject(link_of(source)) == "$JS.hub.API.CONSUMER.RESET.O.DUR"
    assert origin_request.first_level(link_of(source)) == 5
    assert origin_request.first_level(link_of(mirror=source)) == 0


@pytest.mark.parametrize(
    ("deliver", "mirrors", "subject"),
    [
        ("", True, "$JS.M.t"),
        ("", False, "$JS.S.t"),
        ("from.hub", True, "from.hub.M.t"),
        ("from.hub.", False, "from.hub.S.t"),
    ],
)
def test_deliver_subjects(deliver: str, mirrors: bool, subject: str) -> None:
    """Under the deliver prefix, if there is one."""
    source = StreamSource("O", external=ExternalStream("$JS.hub.API", deliver))
    link = link_of(mirror=source) if mirrors else link_of(source)
    assert origin_request.deliver_subject(link, "t") == subject


def test_a_mirror_begins_where_it_ends() -> None:
    """Its options count for its first message only."""
    link = link_of(mirror=StreamSource("O", opt_start_seq=5, external=HUB))
    assert origin_request.start_of(link, recreated=False) == OriginStart(5)
    link.target.index.restore_bounds(first_seq=9, last_seq=8, last_ts=0)
    assert origin_request.start_of(link, recreated=False) == OriginStart(9)
    link = link_of(mirror=StreamSource("O", opt_start_time=77, external=HUB))
    assert origin_request.start_of(link, recreated=False) == OriginStart(time_ns=77)


def test_a_source_begins_behind_its_position() -> None:
    """And anew where the origin is another; a start time is never before what the stream has."""
    source = StreamSource("O", opt_start_time=10**9, external=HUB)
    link = link_of(source)
    assert origin_request.start_of(link, recreated=False) == OriginStart(time_ns=10**9)
    link.target.index.append(1, link.target.index.table.intern("o"), ts_ns=2 * 10**9, size=1)
    assert origin_request.start_of(link, recreated=False) == OriginStart(time_ns=2 * 10**9)
    link.target.sources[index_name(source)] = SourcePosition(41, "one")
    assert origin_request.start_of(link, recreated=False) == OriginStart(42)
    assert origin_request.start_of(link, recreated=True) == OriginStart(time_ns=2 * 10**9)


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        (b"$JS.ACK.O.c.1.5.3.1700.9@a.b@c", ("c", 1, 5, 3, 1700, 9, "a.b@c")),
        (b"$JS.ACK._.hash.O.c@d.1.5.3.1700.9@a.b", ("c@d", 1, 5, 3, 1700, 9, "a.b")),
        (b"$JS.ACK.O@.c.1.5.3.1700.9", ("c", 1, 5, 3, 1700, 9, "wire")),
        (b"$JS.ACK.O.c.1.5.3.1700", None),
        (b"$JS.ACK.O.c.1.-5.3.1700.9@a", None),
        (b"$JS.ACK.O.c.1.99999999999999999999.3.1700.9@a", None),
        (b"$JS.ACK.O.c.1.5.3.9223372036854775806.9@a", None),
        (b"_INBOX.x", None),
    ],
)
def test_ack_replies(reply: bytes, read: tuple[Any, ...] | None) -> None:
    """Both forms are read, names may contain the separator, and what is no number is nothing."""
    found = read_delivery(WireMessage(b"wire", reply, b"", b""))
    assert (tuple(found) if found is not None else None) == read


def test_answers() -> None:
    """A consumer with its position and the origin's identity; an error as it stands; nonsense as an error."""
    good = b'{"name":"c","delivered":{"consumer_seq":0,"stream_seq":41},"config":{}}'
    found = read_answer(WireMessage(b"", b"", b"NATS/1.0\r\nNats-Stream-Identity: Id\r\n\r\n", good))
    assert (found.error, found.consumer, found.delivered, found.identity) == (None, "c", 41, "Id")
    refused = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    assert read_answer(WireMessage(b"", b"", b"", refused)).err_code == 10059
    for nonsense in (b"", b"[]", b"{", b'{"name":1}', b'{"name":"c","delivered":{"stream_seq":-1}}', b"[" * 100_000):
        assert read_answer(WireMessage(b"", b"", b"", nonsense)).error is not None


@given(reply=st.binary(max_size=80), header=st.binary(max_size=80), payload=st.binary(max_size=80))
def test_nothing_that_an_origin_sends_raises(reply: bytes, header: bytes, payload: bytes) -> None:
    """Whatever comes is read as something or nothing."""
    message = WireMessage(b"s", b"$JS.ACK." + reply, b"NATS/1.0 100 " + header, payload)
    read_delivery(message)
    read_answer(message)
    header_value(message.header, "Nats-Last-Consumer")
