"""Each header and each error of a publish, with the exact acknowledgement that nats-server 2.15.1 gives."""

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import subjects_matching
from delta_store.index.segments import SEGMENT_SLOTS
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import restore_watermarks
from delta_store.values.records import Row
from delta_store.values.watermark import Watermark
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
E_STREAM, E_LAST, E_ID = "Nats-Expected-Stream", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Msg-Id"
E_SUBJECT, E_SUBJECT_OF = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"


def block(*headers: tuple[str, str]) -> bytes:
    """A header block."""
    return b"NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers).encode() + b"\r\n"


class Publisher:
    """Publishes to a catalog with streams; returns acknowledgement bodies."""

    def __init__(self, *configs: StreamConfig, domain: str = "") -> None:
        self.catalog = Catalog(domain=domain)
        self.now = NOW
        self.rows: list[Row] = []
        group = Group()
        for config in configs or (StreamConfig("S", ("s.>",)),):
            self.catalog.create(config, now_ns=self.now, rows=group.rows)

    def __call__(
        self, subject: bytes, header: bytes = b"", payload: bytes = b"x", *, reply: bytes = b"_INBOX.1"
    ) -> bytes:
        """Publish one message."""
        group = Group()
        decide(self.catalog, [WireMessage(subject, reply, header, payload)], self.now, group)
        self.rows += group.rows.rows()
        if not group.replies:
            return b""
        (frame,) = group.replies
        line, body = frame.split(b"\r\n", 1)
        assert line == b"LMSG %b %d" % (reply, len(body) - 2)
        assert body.endswith(b"\r\n")
        return body[:-2]


def failed(code: int, err_code: int, text: str, stream: str = "S") -> bytes:
    """The body that refuses a message."""
    error = f'{{"code":{code},"err_code":{err_code},"description":"{text}"}}'
    return f'{{"error":{error},"stream":"{stream}","seq":0}}'.encode()


@pytest.fixture
def nine() -> Publisher:
    """A stream with nine messages: the last one of ``s.1`` is 5, of ``s.2`` 9 with message id ``nine``."""
    publisher = Publisher()
    for number in range(1, 10):
        publisher(b"s.1" if number <= 5 else b"s.2", block(("Nats-Msg-Id", "nine")) if number == 9 else b"")
    return publisher


STORED = b'{"stream":"S","seq":10}'
WRONG_9 = failed(400, 10071, "wrong last sequence: 9")
WRONG_5 = failed(400, 10071, "wrong last sequence: 5")
WRONG_0 = failed(400, 10071, "wrong last sequence: 0")
NO_SEQUENCE = failed(400, 10193, "missing sequence for expected last sequence per subject")
NO_TTL, BAD_TTL = failed(400, 10166, "per-message TTL is disabled"), failed(400, 10165, "invalid per-message TTL")
NO_COUNTER = failed(400, 10168, "message counters is disabled")
BAD_COUNTER = failed(400, 10171, "message counter increment is invalid")
NO_SCHEDULE = failed(400, 10188, "message schedules is disabled")
BAD_SCHEDULER = failed(400, 10212, "message schedules invalid scheduler")
NO_ROLLUP = failed(500, 10111, "rollup not permitted")
NO_BATCH = failed(400, 10174, "atomic publish is disabled")
WRONG_STREAM = failed(400, 10060, "expected stream does not match")
DUPLICATE = b'{"stream":"S","seq":9,"duplicate": true}'

CASES = [
    ([(E_STREAM, "S")], STORED),
    ([(E_STREAM, "X")], WRONG_STREAM),
    ([("nats-expected-stream", "X")], STORED),
    ([(E_STREAM, "")], STORED),
    ([(E_LAST, "9")], STORED),
    ([(E_LAST, "009")], STORED),
    ([(E_LAST, "8")], WRONG_9),
    ([(E_LAST, "0")], WRONG_9),
    ([(E_LAST, "abc")], WRONG_9),
    ([(E_LAST, "-1")], WRONG_9),
    ([(E_LAST, "9 ")], WRONG_9),
    ([(E_LAST, "")], STORED),
    ([(E_LAST, "99999999999999999999999")], WRONG_9),
    ([(E_SUBJECT, "5")], STORED),
    ([(E_SUBJECT, "9")], WRONG_5),
    ([(E_SUBJECT, "0")], WRONG_5),
    ([(E_SUBJECT, "77"), (E_SUBJECT_OF, "s.nope")], WRONG_0),
    ([(E_SUBJECT, "0"), (E_SUBJECT_OF, "s.nope")], STORED),
    ([(E_SUBJECT, "77"), (E_SUBJECT_OF, "s.>")], WRONG_9),
    ([(E_SUBJECT, "9"), (E_SUBJECT_OF, "s.*")], STORED),
    ([(E_SUBJECT, "0"), (E_SUBJECT_OF, "s..x")], STORED),
    ([(E_SUBJECT, "0"), (E_SUBJECT_OF, "")], WRONG_5),
    ([(E_SUBJECT_OF, "s.1")], NO_SEQUENCE),
    ([(E_SUBJECT_OF, "s.1"), (E_LAST, "77")], NO_SEQUENCE),
    ([(E_SUBJECT, "7"), (E_LAST, "77")], WRONG_5),
    ([(E_STREAM, "X"), (E_LAST, "77")], WRONG_STREAM),
    ([(E_ID, "nine")], STORED),
    ([(E_ID, "ten")], failed(400, 10070, "wrong last msg ID: nine")),
    ([(E_ID, "")], STORED),
    ([("Nats-Msg-Id", "ten")], STORED),
    ([("Nats-Msg-Id", "nine")], DUPLICATE),
    ([("Nats-Msg-Id", "")], STORED),
    ([("Nats-Msg-Id", "nine"), ("Nats-Msg-Id", "ten")], DUPLICATE),
    ([("Nats-Msg-Id", "nine"), (E_LAST, "77")], WRONG_9),
    ([("Nats-Msg-Id", "nine"), (E_ID, "zzz")], DUPLICATE),
    ([("Nats-Msg-Id", "ten"), (E_ID, "zzz")], failed(400, 10070, "wrong last msg ID: nine")),
    ([("X", "Nats-Msg-Id: nine")], STORED),
    ([("Nats-Msg-Id ", "nine")], STORED),
    ([(" Nats-Msg-Id", "nine")], STORED),
    ([("Nats-TTL", "5")], NO_TTL),
    ([("Nats-TTL", "1h30m")], NO_TTL),
    ([("Nats-TTL", "1.5s")], NO_TTL),
    ([("Nats-TTL", ".5h")], NO_TTL),
    ([("Nats-TTL", "never")], NO_TTL),
    ([("Nats-TTL", "NEVER")], NO_TTL),
    ([("Nats-TTL", "0")], BAD_TTL),
    ([("Nats-TTL", "10ms")], BAD_TTL),
    ([("Nats-TTL", "-1")], BAD_TTL),
    ([("Nats-TTL", "-1s")], BAD_TTL),
    ([("Nats-TTL", "+5")], BAD_TTL),
    ([("Nats-TTL", "1h 30m")], BAD_TTL),
    ([("Nats-TTL", "abc")], BAD_TTL),
    ([("Nats-TTL", "")], STORED),
    ([("Nats-TTL", "00")], STORED),
    ([("Nats-TTL", "abc"), ("Nats-Msg-Id", "nine")], DUPLICATE),
    ([("Nats-TTL", "1h"), ("Nats-Msg-Id", "nine")], NO_TTL),
    ([("Nats-TTL", "1h"), (E_STREAM, "X")], WRONG_STREAM),
    ([("Nats-TTL", "1h"), (E_LAST, "77")], NO_TTL),
    ([("Nats-Incr", "1")], NO_COUNTER),
    ([("Nats-Incr", "+1")], NO_COUNTER),
    ([("Nats-Incr", "-12")], NO_COUNTER),
    ([("Nats-Incr", "abc")], BAD_COUNTER),
    ([("Nats-Incr", "+")], BAD_COUNTER),
    ([("Nats-Incr", "1_0")], BAD_COUNTER),
    ([("Nats-Incr", "")], STORED),
    ([("Nats-Incr", "1"), (E_STREAM, "X")], NO_COUNTER),
    ([("Nats-Schedule", "@at 2099-01-01T00:00:00Z")], NO_SCHEDULE),
    ([("Nats-Schedule", "bad"), (E_LAST, "77")], WRONG_9),
    ([("Nats-Schedule", "")], STORED),
    ([("Nats-Schedule-Target", "x")], STORED),
    ([("Nats-Schedule-Time-Zone", "x")], NO_SCHEDULE),
    ([("Nats-Schedule", "x"), ("Nats-Scheduler", "s.z")], NO_SCHEDULE),
    ([("Nats-Scheduler", "s.z")], BAD_SCHEDULER),
    ([("Nats-Scheduler", "")], STORED),
    ([("Nats-Schedule-Next", "purge")], BAD_SCHEDULER),
    ([("Nats-Schedule-Next", "x"), ("Nats-Scheduler", "s.5")], BAD_SCHEDULER),
    ([("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "s.1")], BAD_SCHEDULER),
    ([("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "s.*")], BAD_SCHEDULER),
    ([("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "s.5")], NO_SCHEDULE),
    ([("Nats-Stream-Source", "x")], failed(400, 10227, "message stream source header is not allowed")),
    ([("Nats-Stream-Source", "x"), (E_ID, "77")], failed(400, 10227, "message stream source header is not allowed")),
    ([("Nats-Rollup", "sub")], NO_ROLLUP),
    ([("Nats-Rollup", "all")], NO_ROLLUP),
    ([("Nats-Rollup", "x")], NO_ROLLUP),
    ([("Nats-Rollup", "")], STORED),
    ([("Nats-Rollup", "x"), ("Nats-Msg-Id", "nine")], DUPLICATE),
    ([("Nats-Rollup", "sub"), (E_ID, "zzz")], failed(400, 10070, "wrong last msg ID: nine")),
    ([("Nats-Batch-Id", "x")], NO_BATCH),
    ([("Nats-Batch-Id", "x"), ("Nats-Batch-Sequence", "1"), ("Nats-Batch-Commit", "1"), (E_STREAM, "X")], NO_BATCH),
    ([("Nats-Batch-Sequence", "1")], STORED),
    ([("Nats-Required-Api-Level", "99")], STORED),
    ([("Nats-Marker-Reason", "MaxAge")], STORED),
    ([("KV-Operation", "DEL")], STORED),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "answer"), CASES, ids=lambda value: str(value)[:70])
def test_headers(nine: Publisher, headers: list[tuple[str, str]], answer: bytes) -> None:
    """Each header alone, and pairs that show which check comes first."""
    assert nine(b"s.1", block(*headers)) == answer
    assert nine.catalog.streams["S"].index.last_seq == (10 if answer == STORED else 9)
    if answer == STORED:
        assert nine.rows[-1].headers == block(*headers)


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"NATS/1.0\r\nNats-Request-Info: {}\r\n\r\n", None),
        (
            b"NATS/1.0\r\na: 1\r\nNats-Request-Info: {}\r\nb: 2\r\n\r\n",
            b"NATS/1.0\r\na: 1\r\nb: 2\r\n\r\n",
        ),
        (b"NATS/1.0 503 No\r\nx: y\r\n\r\n", b"NATS/1.0\r\nx: y\r\n\r\n"),
        (b"NATS/1.0 503\r\n\r\n", None),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"NATS/1.0\r\nfoo:bar\r\n\r\n", b"NATS/1.0\r\nfoo:bar\r\n\r\n"),
        (b"garbage\r\n\r\n", b"garbage\r\n\r\n"),
        (b"NATS/1.0\r\nNats-Msg-Id:\tzz\r\n\r\n", b"NATS/1.0\r\nNats-Msg-Id:\tzz\r\n\r\n"),
        (b"NATS/1.0 \r\nNats-Msg-Id: pp\r\n\r\n", b"NATS/1.0\r\nNats-Msg-Id: pp\r\n\r\n"),
        (b"NATS/1.0\r\nA: 1\r\na:  1 \r\nA:2\r\n\r\n", b"NATS/1.0\r\nA: 1\r\na:  1 \r\nA:2\r\n\r\n"),
        (b"", None),
    ],
)
def test_headers_are_kept_byte_for_byte(raw: bytes, kept: bytes | None) -> None:
    """Only a status and the server's own request info are taken out."""
    publisher = Publisher()
    assert publisher(b"s.h", raw, b"data") == b'{"stream":"S","seq":1}'
    row = publisher.rows[-1]
    assert (row.headers, row.data) == (kept, b"data")
    assert publisher.catalog.streams["S"].index.bytes == 30 + 3 + 4 + (4 + len(kept) if kept else 0)


def test_sizes() -> None:
    """max_msg_size counts header and payload as stored and is looked at first; the header has its own bound."""
    publisher = Publisher(StreamConfig("M", ("m.>",), max_msg_size=100), StreamConfig("S", ("s.>",)))
    too_large = failed(400, 10054, "message size exceeds maximum allowed", "M")
    header, long_header = block(("a", "b")), block(("a", "y" * 65_600))
    assert publisher(b"m.1", b"", b"x" * 100) == b'{"stream":"M","seq":1}'
    assert publisher(b"m.1", b"", b"x" * 101) == too_large
    assert publisher(b"m.1", header, b"x" * (101 - len(header))) == too_large
    assert publisher(b"m.1", header, b"x" * (100 - len(header))) == b'{"stream":"M","seq":2}'
    assert publisher(b"m.1", long_header) == too_large
    assert publisher(b"m.1", block(("Nats-Rollup", "sub")), b"x" * 101) == too_large
    assert publisher(b"m.1", block(("Nats-Expected-Stream", "NO")), b"x" * 101) == too_large
    assert publisher(b"m.1", block(("Nats-TTL", "abc")), b"x" * 101) == too_large
    assert publisher(b"m.1", block(("Nats-Request-Info", "a" * 50)), b"x" * 50) == b'{"stream":"M","seq":3}'
    assert publisher(b"s.1", long_header) == failed(400, 10097, "header size exceeds maximum allowed of 64k")
    largest = b"NATS/1.0\r\na: " + b"y" * (65_535 - 17) + b"\r\n\r\n"
    assert len(largest) == 65_535
    assert publisher(b"s.1", largest) == b'{"stream":"S","seq":1}'


def test_discard_new() -> None:
    """A full stream refuses, unless the message replaces one of its own subject."""
    messages = StreamConfig("N", ("n.>",), max_msgs=2, discard="new")
    per_subject = StreamConfig("NP", ("np.>",), max_msgs=2, discard="new", max_msgs_per_subject=1)
    size = StreamConfig("NB", ("nb.>",), max_bytes=100, discard="new")
    replaced = StreamConfig("NQ", ("nq.>",), max_bytes=100, discard="new", max_msgs_per_subject=1)
    publisher = Publisher(messages, per_subject, size, replaced)
    assert [publisher(b"n.%d" % number) for number in range(3)] == [
        b'{"stream":"N","seq":1}',
        b'{"stream":"N","seq":2}',
        failed(503, 10077, "maximum messages exceeded", "N"),
    ]
    assert publisher(b"n.1", block((E_ID, "zz"))) == failed(400, 10070, "wrong last msg ID: ", "N")
    assert publisher(b"n.1", block(("Nats-TTL", "abc"))) == failed(400, 10165, "invalid per-message TTL", "N")
    assert publisher(b"n.1", block(("Nats-Msg-Id", "b"))) == failed(503, 10077, "maximum messages exceeded", "N")
    assert publisher(b"n.1", block(("Nats-Msg-Id", "b"))) == failed(503, 10077, "maximum messages exceeded", "N")
    assert [publisher(subject) for subject in (b"np.1", b"np.2", b"np.1", b"np.3")] == [
        b'{"stream":"NP","seq":1}',
        b'{"stream":"NP","seq":2}',
        b'{"stream":"NP","seq":3}',
        failed(503, 10077, "maximum messages exceeded", "NP"),
    ]
    assert publisher(b"nb.1", b"", b"x" * 20) == b'{"stream":"NB","seq":1}'
    full = failed(503, 10077, "maximum bytes exceeded", "NQ")
    assert publisher(b"nb.2", b"", b"x" * 20) == full.replace(b'"NQ"', b'"NB"')
    sizes = [(b"nq.1", 10), (b"nq.2", 10), (b"nq.1", 10), (b"nq.1", 11), (b"nq.1", 9), (b"nq.1", 10), (b"nq.3", 10)]
    answers = [publisher(subject, b"", b"x" * number) for subject, number in sizes]
    stored = [b'{"stream":"NQ","seq":%d}' % number for number in range(1, 5)]
    assert answers == [*stored[:3], full, stored[3], full, full]


def test_max_bytes_below_one_message() -> None:
    """A message larger than max_bytes is stored, and removed by itself."""
    publisher = Publisher(StreamConfig("B", ("b.>",), max_bytes=100))
    assert publisher(b"b.1", b"", b"x" * 50) == b'{"stream":"B","seq":1}'
    assert publisher(b"b.1", b"", b"x" * 500) == b'{"stream":"B","seq":2}'
    index = publisher.catalog.streams["B"].index
    assert (index.msgs, index.bytes, index.first_seq, index.last_seq, index.last_ts) == (0, 0, 3, 2, NOW + 2)
    assert publisher.rows[-1].first_seq == 3


def test_duplicate_window() -> None:
    """An id is a duplicate until its window has passed, also of a message that is gone."""
    publisher = Publisher(StreamConfig("S", ("s.>",), duplicate_window=2 * SECOND, max_msgs=1))
    header = block(("Nats-Msg-Id", "a"))
    assert publisher(b"s.1", header) == b'{"stream":"S","seq":1}'
    publisher(b"s.2")
    publisher.now += SECOND
    assert publisher(b"s.1", header) == b'{"stream":"S","seq":1,"duplicate": true}'
    publisher.now += 2 * SECOND
    assert publisher(b"s.1", header) == b'{"stream":"S","seq":3}'


def test_msg_id_that_is_not_text() -> None:
    """Any bytes are an id."""
    publisher = Publisher()
    header = b"NATS/1.0\r\nNats-Msg-Id: \xff\xfe\r\n\r\n"
    assert publisher(b"s.1", header) == b'{"stream":"S","seq":1}'
    assert publisher(b"s.1", header) == b'{"stream":"S","seq":1,"duplicate": true}'
    assert publisher.rows[-1].headers == header


def test_no_acknowledgement() -> None:
    """Neither without a reply subject nor from a stream with no_ack, be it stored or refused."""
    publisher = Publisher(StreamConfig("S", ("s.>",)), StreamConfig("Q", ("q.>",), no_ack=True))
    assert publisher(b"s.1", reply=b"") == b""
    assert publisher(b"s.1", block((E_STREAM, "X")), reply=b"") == b""
    assert publisher(b"q.1") == publisher(b"q.1", block((E_STREAM, "X"))) == b""
    assert [row.stream for row in publisher.rows] == ["S", "Q"]


def test_fast_batches_are_refused() -> None:
    """A reply subject of a fast batch gives the error of a stream without them."""
    answer = failed(400, 10205, "batch publish is disabled")
    assert Publisher()(b"s.1", reply=b"_INBOX.id.10.fail.1.0.$FI") == answer
    assert Publisher()(b"s.1", block(("a", "b")), reply=b"_INBOX.$FI") == answer


def test_subjects_that_are_not_text_are_refused() -> None:
    """A subject must be UTF-8 to be stored, whatever else is in the run."""
    publisher = Publisher()
    assert publisher(b"s.\xff") == failed(400, 10003, "bad request: the subject is not valid UTF-8")
    group = Group()
    run = [WireMessage(subject, b"r.%d" % place, b"", b"") for place, subject in enumerate([b"s.a", b"s.\xff", b"s.b"])]
    decide(publisher.catalog, run, NOW, group)
    assert list(group.rows.subject) == ["s.a", "s.b"]
    assert sorted(frame.split(b" ")[1] for frame in group.replies) == [b"r.0", b"r.1", b"r.2"]


def test_subjects_without_a_stream_are_passed_over() -> None:
    """Nothing is stored and nothing answered."""
    publisher = Publisher()
    assert [publisher(subject) for subject in (b"x", b"s", b"s..a", b"s.", b".s")] == [b""] * 5
    assert publisher.rows == []


def test_wildcards_in_a_publish_subject_are_plain_text() -> None:
    """As in nats-server."""
    publisher = Publisher()
    assert publisher(b"s.*") == b'{"stream":"S","seq":1}'
    assert publisher(b"s.a.>") == b'{"stream":"S","seq":2}'
    assert subjects_matching(publisher.catalog.streams["S"].index) == {"s.*": 1, "s.a.>": 1}


def test_domain_in_acknowledgements() -> None:
    """Stands behind the stream's name, in those of stored messages."""
    publisher = Publisher(domain="hub")
    header = block(("Nats-Msg-Id", "a"))
    assert publisher(b"s.1", header) == b'{"stream":"S","domain":"hub","seq":1}'
    assert publisher(b"s.1", header) == b'{"stream":"S","domain":"hub","seq":1,"duplicate": true}'
    assert publisher(b"s.1", block((E_STREAM, "X"))) == WRONG_STREAM


def test_names_and_texts_are_escaped() -> None:
    """Per cent signs, quotes and markup survive the formatting."""
    publisher = Publisher(StreamConfig('100%"d', ("s.>",)))
    header = block(("Nats-Msg-Id", "<a>"))
    assert publisher(b"s.1", header) == b'{"stream":"100%\\"d","seq":1}'
    assert publisher(b"s.1", header) == b'{"stream":"100%\\"d","seq":1,"duplicate": true}'
    told = publisher(b"s.1", block((E_ID, "b")))
    assert b'"description":"wrong last msg ID: \\u003ca\\u003e"},"stream":"100%\\"d"' in told


def test_a_run_over_digits_and_streams() -> None:
    """Long runs give the same frames as single publishes, when the number of digits changes too."""
    configs = (StreamConfig("S", ("s.>",)), StreamConfig("T", ("t",)))
    run = [
        WireMessage(b"t" if place % 3 == 2 else b"s.%d" % (place % 5), b"r.%d" % place, b"", b"p" * (place % 7))
        for place in range(1500)
    ]
    together, alone = Publisher(*configs), Publisher(*configs)
    group = Group()
    decide(together.catalog, run, NOW, group)
    singly = [alone(message.subject, b"", message.payload, reply=message.reply) for message in run]
    frames = {frame.split(b" ")[1]: frame.split(b"\r\n")[1] for frame in group.replies}
    assert [frames[b"r.%d" % place] for place in range(1500)] == singly
    assert sorted(group.rows.rows(), key=lambda row: (row.stream, row.seq)) == sorted(
        alone.rows, key=lambda row: (row.stream, row.seq)
    )


@pytest.mark.parametrize("limits", [{"max_msgs": 3, "max_bytes": 150}, {"max_bytes": 200}, {"max_msgs_per_subject": 2}])
def test_limits_across_segments(limits: dict[str, int]) -> None:
    """A run gives the rows of single publishes wherever it crosses from one segment of the index to the next."""
    run = [WireMessage(b"s.%d" % (place % 3), b"", b"", b"p" * (place * 11 % 41)) for place in range(24)]
    for base in range(SEGMENT_SLOTS - 26, SEGMENT_SLOTS + 2):
        together, alone = (Publisher(StreamConfig("S", ("s.>",), **limits)) for _ in range(2))  # type: ignore[arg-type]
        for publisher in (together, alone):
            restore_watermarks(publisher.catalog, {"S": Watermark(NOW, base, 1, 0)})
        group = Group()
        for part in (run[:7], run[7:12], run[12:]):
            decide(together.catalog, part, NOW, group)
        for message in run:
            alone(message.subject, b"", message.payload)
        assert list(group.rows.rows()) == alone.rows


def test_times_grow_within_a_stream() -> None:
    """Also when the clock stands still or steps back."""
    publisher = Publisher()
    for step in (0, 0, -5 * SECOND, 7):
        publisher.now += step
        publisher(b"s.1")
    times = [row.ts_ns for row in publisher.rows]
    assert times == sorted(set(times))
    assert times[0] > NOW


def test_too_old_messages_go_before_a_publish_is_decided() -> None:
    """A full stream takes a message again when its old ones are too old, and records that first."""
    publisher = Publisher(StreamConfig("S", ("s.>",), max_msgs=1, discard="new", max_age=SECOND))
    publisher(b"s.1")
    assert publisher(b"s.1") == failed(503, 10077, "maximum messages exceeded")
    publisher.now += 2 * SECOND
    assert publisher(b"s.1") == b'{"stream":"S","seq":2}'
    assert [(row.kind, row.first_seq) for row in publisher.rows[1:]] == [("remove", 2), ("message", 2)]
