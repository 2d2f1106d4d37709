"""What follows from messages in streams with rollups, TTLs, transforms, republishing, batches and counters."""

from collections.abc import Iterator

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import Republish, SubjectMapping
from delta_store.index.matching import subjects_matching
from delta_store.streams.catalog import Catalog
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.replay import replay
from delta_store.values.records import Kind, Row, RowColumns
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


class Gate:
    """Decides publishes and keeps what they came to."""

    def __init__(self, *configs: StreamConfig) -> None:
        self.catalog = Catalog()
        self.now = NOW
        self.group = Group()
        for config in configs:
            self.catalog.create(config, now_ns=self.now, rows=self.group.rows)

    def publish(self, subject: str, payload: bytes = b"", **headers: str) -> list[bytes]:
        """Publish one message; the frames that leave for it. Names of headers are given with underscores."""
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
        before = len(self.group.replies)
        decide(self.catalog, [WireMessage(subject.encode(), b"_R", block, payload)], self.now, self.group)
        return self.group.replies[before:]

    def live(self, stream: str) -> list[int]:
        """The live sequences of a stream."""
        index = self.catalog.streams[stream].index
        return [int(seq) for seq in index.live.sequences(0, index.last_seq)]

    def rows(self, kind: Kind) -> list[Row]:
        """The rows of one kind."""
        return [row for row in self.group.rows.rows() if row.kind == kind]

    def expire(self, seconds: float) -> None:
        """Let time pass and remove what is too old then."""
        self.now += int(seconds * SECOND)
        self.catalog.expire(now_ns=self.now, rows=self.group.rows)

    def replays(self) -> Iterator[tuple[object, object]]:
        """What can be seen of each stream here, and in a catalog that was given the rows."""
        again = Catalog()
        replay(again, self.group.rows)
        for name, state in self.catalog.streams.items():
            yield seen(again, name), seen(self.catalog, name)
            assert again.next_expiry_ns() == self.catalog.next_expiry_ns()
            assert again.streams[name].position == state.position


def seen(catalog: Catalog, name: str) -> object:
    """What can be seen of a stream."""
    index = catalog.streams[name].index
    live = [int(seq) for seq in index.live.sequences(0, index.last_seq)]
    return live, index.first_seq, index.last_seq, index.bytes, [index.subject_of(seq) for seq in live]


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate with one stream of each kind; afterwards a replay of the rows must come to the same."""
    made = Gate(
        StreamConfig("KV", ("kv.>",), allow_rollup_hdrs=True, max_msgs_per_subject=1),
        StreamConfig("LOG", ("log.>",), allow_rollup_hdrs=True),
        StreamConfig("TTL", ("ttl.>",), allow_msg_ttl=True, max_age=10 * SECOND),
        StreamConfig(
            "MARK", ("mark.>",), allow_msg_ttl=True, allow_rollup_hdrs=True, subject_delete_marker_ttl=60 * SECOND
        ),
        StreamConfig("FROM", ("from",), first_seq=1000),
        StreamConfig("BATCH", ("batch.>",), allow_atomic=True),
        StreamConfig("COUNT", ("count.>",), allow_msg_counter=True),
    )
    yield made
    for again, original in made.replays():
        assert again == original


def test_rollup_of_one_message_is_an_eviction(gate: Gate) -> None:
    """A key's only older message leaves by the new one's row: as of the new one it is gone, before it was there."""
    gate.publish("kv.a", b"1")
    gate.publish("kv.a", b"2", Nats_Rollup="sub")
    assert gate.live("KV") == [2]
    assert gate.rows(Kind.MESSAGE)[-1].evicts == 1
    assert not gate.rows(Kind.REMOVE)


def test_rollup_of_many_messages_is_recorded_before_it(gate: Gate) -> None:
    """What a subject loses stands in a row at the sequence before, nothing is erased, other subjects stay."""
    for subject in ("log.a", "log.a", "log.b", "log.a"):
        gate.publish(subject)
    gate.publish("log.a", Nats_Rollup="SUB")
    assert gate.live("LOG") == [3, 5]
    (removal,) = gate.rows(Kind.REMOVE)
    what, _ = read_removal(removal.data)
    assert (removal.seq, what.reason, what.erase) == (4, "rollup", False)
    assert what.ranges == [(1, 2), (4, 4)]
    assert gate.rows(Kind.MESSAGE)[-1].event_no == removal.event_no


def test_rollup_of_very_many_messages(gate: Gate) -> None:
    """All messages of the subject are found, however many there are."""
    for number in range(50):
        gate.publish(f"log.{number % 2}")
    gate.publish("log.0", Nats_Rollup="sub")
    assert gate.live("LOG") == [*range(2, 51, 2), 51]


def test_rollup_of_all_moves_the_first_sequence(gate: Gate) -> None:
    """The row of a rollup of all says itself that nothing before it is left."""
    gate.publish("log.a")
    gate.publish("log.b")
    gate.publish("log.c", Nats_Rollup="all")
    assert gate.live("LOG") == [3]
    assert gate.rows(Kind.MESSAGE)[-1].first_seq == 3
    assert not gate.rows(Kind.REMOVE)


def test_messages_expire_by_their_own_ttl_and_by_age(gate: Gate) -> None:
    """A short TTL ends before max_age, max_age ends all others but those that never expire."""
    gate.publish("ttl.never", Nats_TTL="never")
    gate.publish("ttl.short", Nats_TTL="2")
    gate.publish("ttl.plain")
    gate.publish("ttl.long", Nats_TTL="1h")
    gate.publish("ttl.never", Nats_TTL="NEVER")
    assert 0 < gate.catalog.next_expiry_ns() - NOW - 2 * SECOND < 10
    gate.expire(2.1)
    assert gate.live("TTL") == [1, 3, 4, 5]
    gate.expire(8)
    assert gate.live("TTL") == [1, 5]
    assert gate.catalog.next_expiry_ns() == 0
    gate.publish("ttl.new")
    assert 0 <= gate.catalog.next_expiry_ns() - gate.now - 10 * SECOND < 10
    assert [read_removal(row.data)[0].reason for row in gate.rows(Kind.REMOVE)] == ["age", "age"]


def test_a_deleted_message_expires_no_more(gate: Gate) -> None:
    """The time of a message that is gone is not waited for."""
    gate.publish("ttl.a", Nats_TTL="5")
    gate.catalog.remove("TTL", 1, now_ns=gate.now, rows=gate.group.rows)
    assert gate.catalog.next_expiry_ns() == 0


def test_delete_markers_take_the_place_of_last_messages(gate: Gate) -> None:
    """A subject's last message leaves a marker, which leaves nothing itself; earlier messages leave none."""
    gate.publish("mark.a", Nats_TTL="60")
    gate.publish("mark.a", Nats_TTL="61")
    gate.publish("mark.b", KV_Operation="PURGE", Nats_TTL="60")
    gate.publish("mark.c")
    gate.expire(60.5)
    assert gate.live("MARK") == [2, 4]
    gate.expire(1)
    assert gate.live("MARK") == [4, 5]
    marker = gate.rows(Kind.MESSAGE)[-1]
    assert marker.subject == "mark.a"
    assert marker.evicts == 2
    assert marker.headers == b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m0s\r\nNats-Rollup: sub\r\n\r\n"
    gate.expire(60)
    assert gate.live("MARK") == [4]


def test_a_ttl_below_that_of_markers_is_raised(gate: Gate) -> None:
    """A message lives at least as long as a marker would, and says so."""
    gate.publish("mark.a", X="y", Nats_TTL="1s")
    assert gate.rows(Kind.MESSAGE)[-1].headers == b"NATS/1.0\r\nX: y\r\nNats-TTL: 60\r\n\r\n"


def test_first_sequence(gate: Gate) -> None:
    """The first message takes the configured sequence."""
    assert gate.catalog.streams["FROM"].index.first_seq == 1000
    gate.publish("from")
    assert gate.live("FROM") == [1000]


def test_batches_become_rows_together(gate: Gate) -> None:
    """Nothing is stored before the commit, then all is, in order."""
    for number in (1, 2, 3):
        headers = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": f"{number}"}
        if number == 3:
            headers["Nats_Batch_Commit"] = "1"
        frames = gate.publish(f"batch.{number}", b"x", **headers)
        assert frames == [b"LMSG _R 0\r\n\r\n"] or number == 3
        assert gate.live("BATCH") == ([1, 2, 3] if number == 3 else [])
    assert gate.group.replies[-1].endswith(b'{"stream":"BATCH","seq":3,"batch":"b","count":3}\r\n')


def test_batches_end_when_nothing_comes(gate: Gate) -> None:
    """A batch that was left alone for too long can't be committed."""
    gate.publish("batch.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    gate.now += 11 * SECOND
    (frame,) = gate.publish("batch.a", Nats_Batch_Id="b", Nats_Batch_Sequence="2", Nats_Batch_Commit="1")
    assert b"10176" in frame
    assert gate.live("BATCH") == []
    assert not gate.catalog.streams["BATCH"].batches


def test_counters_go_on_from_what_is_left(gate: Gate) -> None:
    """A counter's next total follows from the last message that is live, also after a replay."""
    gate.publish("count.a", Nats_Incr="5")
    gate.publish("count.a", Nats_Incr="-7")
    gate.catalog.remove("COUNT", 2, now_ns=gate.now, rows=gate.group.rows)
    (frame,) = gate.publish("count.a", Nats_Incr="100")
    assert frame.endswith(b'{"stream":"COUNT","seq":3,"val":"105"}\r\n')
    again = Catalog()
    replay(again, gate.group.rows)
    state = again.streams["COUNT"]
    assert state.counters is not None
    assert state.counters.last(state.index, state.index.table.intern("count.a")).value == 105


def test_transformed_subjects_are_stored() -> None:
    """The subject is changed before anything else is decided."""
    gate = Gate(StreamConfig("S", ("s.*",), subject_transform=SubjectMapping("s.*", "t.{{wildcard(1)}}.x")))
    gate.publish("s.a")
    assert gate.rows(Kind.MESSAGE)[0].subject == "t.a.x"
    assert subjects_matching(gate.catalog.streams["S"].index) == {"t.a.x": 1}


def test_random_subjects_differ() -> None:
    """A subject with a random part is not remembered."""
    gate = Gate(StreamConfig("S", ("s.*",), subject_transform=SubjectMapping("s.*", "t.{{random(1000)}}")))
    for _ in range(20):
        gate.publish("s.a")
    assert len(subjects_matching(gate.catalog.streams["S"].index)) > 5


def test_republished_messages_enter_other_streams_and_leave_before_the_ack() -> None:
    """What is republished goes out to the hub and, as the hub does not send it back, into our own streams."""
    gate = Gate(
        StreamConfig("A", ("a.>",), republish=Republish("a.*", "b.$1")),
        StreamConfig("B", ("b.>",), republish=Republish("b.*", "c.$1", headers_only=True)),
        StreamConfig("C", ("c.>",)),
    )
    frames = gate.publish("a.x", b"data")
    assert [frame.split(b" ")[1] for frame in frames] == [b"b.x", b"_R", b"c.x"]
    assert [row.stream for row in gate.rows(Kind.MESSAGE)] == ["A", "B", "C"]
    last = gate.rows(Kind.MESSAGE)[-1]
    assert last.data == b""
    assert last.headers is not None
    assert last.headers.endswith(b"Nats-Last-Sequence: 0\r\nNats-Msg-Size: 4\r\n\r\n")


def test_republishing_in_a_circle_ends() -> None:
    """Two streams that republish into each other stop after some rounds."""
    gate = Gate(
        StreamConfig("A", ("a",), republish=Republish("a", "b")),
        StreamConfig("B", ("b",), republish=Republish("b", "a")),
    )
    gate.publish("a")
    assert len(gate.rows(Kind.MESSAGE)) == 8


def test_sealed_streams_take_nothing() -> None:
    """Bulk or not: a sealed stream refuses."""
    gate = Gate(StreamConfig("S", ("s",), sealed=True))
    group = Group()
    decide(gate.catalog, [WireMessage(b"s", b"_R", b"", b"")] * 20, NOW, group)
    assert len(group.replies) == 20
    assert all(b"10109" in frame for frame in group.replies)
    assert group.rows == RowColumns()
