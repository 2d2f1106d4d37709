"""What mirrors and sources take, from where on, and what copies say of where they came from."""

import pytest

from delta_store.config.stream_parts import ExternalStream, SourceConsumer, StreamSource, SubjectMapping
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.stream_sources import (
    CAUGHT_UP,
    Selection,
    SourcePosition,
    identity,
    index_name,
    is_local,
    mirror_start,
    mirrored_header,
    positions_data,
    read_positions,
    shown,
    source_start,
    sourced_header,
)


def index(*seqs: int) -> StreamIndex:
    """Messages of subjects a, b, a, b, … whose time is ten times their sequence."""
    made = StreamIndex(chained=False)
    for seq in seqs:
        made.append(seq, made.table.intern("ab"[seq % 2]), ts_ns=seq * 10, size=50)
    return made


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (StreamSource("O"), "O > >"),
        (StreamSource("O", filter_subject="o.a"), "O o.a >"),
        (StreamSource("O", subject_transforms=(SubjectMapping("a", "b"), SubjectMapping())), "O a\f> b\f>"),
        (StreamSource("O", consumer=SourceConsumer("C", "d")), "O:C=jZ6RvVRH > >"),
    ],
)
def test_index_names(source: StreamSource, name: str) -> None:
    """Sources are called as nats-server calls them."""
    assert index_name(source) == name


def test_identities_tell_incarnations_apart() -> None:
    """Another stream of the same name has another identity, of eight letters and digits."""
    assert identity("O", 1) == identity("O", 1) != identity("O", 2)
    assert len(identity("O", 1)) == 8
    assert identity("O", 1).isalnum()


@pytest.mark.parametrize(
    ("header", "stored"),
    [
        (None, b"NATS/1.0\r\nNats-Stream-Source: O 7 > > o.a 12345678\r\n\r\n"),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: O 7 > > o.a 12345678\r\n\r\n"),
        (
            b"NATS/1.0\r\nNats-Stream-Source: X 1\r\nNats-Expected-X: O\r\nNats-Msg-Id: 1\r\nNats-Batch-Id: z\r\n\r\n",
            b"NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Stream-Source: O 7 > > o.a 12345678\r\n\r\n",
        ),
        (
            b"NATS/1.0\r\nNats-Expected-Stream: O\r\n\r\n",
            b"NATS/1.0\r\nNats-Stream-Source: O 7 > > o.a 12345678\r\n\r\n",
        ),
    ],
)
def test_sourced_headers(header: bytes | None, stored: bytes) -> None:
    """The source's header is added behind the others; those that would be checked again, and an older one, go."""
    assert sourced_header(header, "O > >", seq=7, subject="o.a", identity="12345678") == stored


def test_positions_are_read_back() -> None:
    """What a row records is what replay finds."""
    positions = {"O > >": SourcePosition(7, "12345678"), "P a\fb >\f>": SourcePosition(0, "")}
    assert read_positions(positions_data(positions)) == (positions, False)
    assert read_positions(CAUGHT_UP) == ({}, True)


def test_selection() -> None:
    """Filters choose, the first transform that matches maps, and sequences stop at the bound and at the limit."""
    origin = index(1, 2, 3, 5, 6, 7, 8)
    everything = Selection(StreamSource("O"))
    assert everything.sequences(origin, 2, up_to=7, limit=9) == [2, 3, 5, 6, 7]
    assert everything.sequences(origin, 2, up_to=7, limit=2) == [2, 3]
    assert everything.subjects(("a", "b")) == ("a", "b")
    some = Selection(StreamSource("O", filter_subject="b"))
    assert some.sequences(origin, 2, up_to=8, limit=9) == [3, 5, 7]
    mappings = (SubjectMapping("a", ""), SubjectMapping("b", "x.b"), SubjectMapping("*", "never"))
    assert Selection(StreamSource("O", subject_transforms=mappings)).subjects(["a", "b"]) == ["never", "x.b"]
    assert Selection(StreamSource("O", subject_transforms=mappings[:1])).sequences(origin, 1, up_to=8, limit=9) == [
        2,
        6,
        8,
    ]


def test_where_mirrors_begin() -> None:
    """Behind their own last message; the options count only for a mirror that never had any."""
    origin, empty = index(1, 2, 3, 5), StreamIndex(chained=False)
    assert mirror_start(StreamSource("O"), empty, origin) == 1
    assert mirror_start(StreamSource("O", opt_start_seq=3), empty, origin) == 3
    assert mirror_start(StreamSource("O", opt_start_time=31), empty, origin) == 5
    assert mirror_start(StreamSource("O", opt_start_seq=3), index(2), origin) == 3
    assert mirror_start(StreamSource("O", opt_start_seq=1), index(4), origin) == 5


def test_where_sources_begin() -> None:
    """Behind their position; without one where the options say, and never before what the stream held already."""
    origin, empty = index(1, 2, 3, 5), StreamIndex(chained=False)
    assert source_start(StreamSource("O"), empty, origin, None) == 1
    assert source_start(StreamSource("O", opt_start_seq=2), empty, origin, SourcePosition(3, "x")) == 4
    assert source_start(StreamSource("O", opt_start_seq=2), empty, origin, SourcePosition(0, "")) == 2
    assert source_start(StreamSource("O", opt_start_time=15), empty, origin, None) == 2
    assert source_start(StreamSource("O", opt_start_time=15), index(3), origin, None) == 3
    purged = index(1, 2)
    purged.advance_first(3)
    assert source_start(StreamSource("O"), purged, origin, None) == 2
    assert source_start(StreamSource("O"), purged, origin, SourcePosition(0, "")) == 1


def test_what_info_shows() -> None:
    """Lag counts what is chosen and not copied; an origin that is not there is an error."""
    source = StreamSource("O", filter_subject="b")
    assert shown(source, index(1, 2, 3, 5), next_seq=2, seq=1) == {
        "name": "O",
        "lag": 2,
        "seq": 1,
        "active": 1,
        "filter_subject": "b",
    }
    assert shown(StreamSource("O"), None, next_seq=0, seq=0) == {
        "name": "O",
        "lag": 0,
        "active": -1,
        "error": {"code": 404, "err_code": 10059, "description": "stream not found"},
    }


def test_origins_of_other_domains_are_not_local() -> None:
    """An external origin is one of this store only where its API is that of the own domain."""
    assert is_local(StreamSource("O"), "")
    assert is_local(StreamSource("O", external=ExternalStream("$JS.here.API")), "here")
    assert not is_local(StreamSource("O", external=ExternalStream("$JS.there.API")), "here")
    assert not is_local(StreamSource("O", external=ExternalStream("$JS..API")), "")


@pytest.mark.parametrize(
    ("header", "stored"),
    [
        (None, None),
        (
            b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: X 1\r\n\r\n",
            b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: X 1\r\n\r\n",
        ),
        (b"NATS/1.0\r\nNats-Expected-Stream: O\r\nA: b\r\nNats-Batch-Id: z\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0\r\nNats-Expected-Stream: O\r\n\r\n", None),
    ],
)
def test_what_a_mirror_keeps_of_headers(header: bytes | None, stored: bytes | None) -> None:
    """All but what was expected on publishing, and what made it part of a batch."""
    assert mirrored_header(header) == stored
