"""Operations on streams, by plain examples whose results nats-server 2.15.1 gave."""

import json
from dataclasses import replace

import pytest

from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import last_by_subject, subjects_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import ranges_of, read_stream
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.replay import replay, replay_row, restore_watermarks
from delta_store.values.records import Kind, Row, RowColumns, checksum
from delta_store.values.watermark import Watermark
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide
from tests.tables import marks_of

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
PLAIN = StreamConfig("S", ("s.>",))


class Store:
    """A catalog with one stream, and its rows."""

    def __init__(self, config: StreamConfig = PLAIN) -> None:
        self.catalog = Catalog()
        self.rows = RowColumns()
        self.catalog.create(config, now_ns=NOW, rows=self.rows)
        self.now = NOW

    @property
    def index(self) -> StreamIndex:
        """The stream's index."""
        return self.catalog.streams["S"].index

    @property
    def last_row(self) -> Row:
        """The newest row."""
        return list(self.rows.rows())[-1]

    def publish(self, *subjects: str, size: int = 1, msg_id: str = "") -> None:
        """Publish messages."""
        header = f"NATS/1.0\r\nNats-Msg-Id: {msg_id}\r\n\r\n".encode() if msg_id else b""
        group = Group(rows=self.rows)
        decide(self.catalog, [WireMessage(one.encode(), b"", header, b"x" * size) for one in subjects], self.now, group)

    def totals(self) -> tuple[int, int, int, list[int]]:
        """Messages, first and last sequence, and what is missing between them."""
        return self.index.msgs, self.index.first_seq, self.index.last_seq, self.index.deleted()


@pytest.fixture
def ten() -> Store:
    """Ten messages on three subjects, the ninth deleted."""
    store = Store()
    store.publish(*(f"s.{number % 3}" for number in range(1, 11)))
    store.catalog.remove("S", 9, now_ns=NOW, rows=store.rows)
    return store


@pytest.mark.parametrize(
    ("subject", "seq", "keep", "purged", "totals"),
    [
        ("", 0, 0, 9, (0, 11, 10, [])),
        ("", 5, 0, 4, (5, 5, 10, [9])),
        ("", 9, 0, 8, (1, 10, 10, [])),
        ("", 11, 0, 9, (0, 11, 10, [])),
        ("", 0, 3, 6, (3, 7, 10, [9])),
        ("", 0, 20, 0, (9, 1, 10, [9])),
        ("", 1, 0, 0, (9, 1, 10, [9])),
        ("s.1", 0, 0, 4, (5, 2, 10, [4, 7, 9, 10])),
        ("s.1", 0, 2, 2, (7, 2, 10, [4, 9])),
        ("s.*", 0, 2, 7, (2, 8, 10, [9])),
        ("s.1", 7, 0, 2, (7, 2, 10, [4, 9])),
        ("s.1", 8, 0, 3, (6, 2, 10, [4, 7, 9])),
        ("s.1", 100, 0, 4, (5, 2, 10, [4, 7, 9, 10])),
        (">", 0, 0, 9, (0, 11, 10, [])),
        (">", 0, 3, 6, (3, 7, 10, [9])),
        ("s.>", 0, 3, 6, (3, 7, 10, [9])),
        ("nope", 0, 0, 0, (9, 1, 10, [9])),
        ("s..x", 0, 0, 0, (9, 1, 10, [9])),
        ("s.0", 5, 0, 1, (8, 1, 10, [3, 9])),
    ],
)
def test_purge(
    ten: Store, subject: str, seq: int, keep: int, purged: int, totals: tuple[int, int, int, list[int]]
) -> None:
    """By filter, below a sequence, and but the last few."""
    before = len(ten.rows)
    assert ten.catalog.purge("S", subject=subject, seq=seq, keep=keep, now_ns=NOW, rows=ten.rows) == purged
    assert ten.totals() == totals
    assert len(ten.rows) == before + (purged > 0)
    if purged:
        removal, last_ts = read_removal(ten.last_row.data)
        assert (removal.reason, removal.erase, last_ts) == ("purge", True, ten.index.last_ts)
        assert (ten.last_row.kind, ten.last_row.first_seq) == ("remove", totals[1])
    ten.publish("s.1")
    assert ten.index.last_seq == 11


def test_state_of_a_stream_that_is_emptied() -> None:
    """Zeros before the first message; later the first sequence is the next one, and the last time stays."""
    store = Store()
    assert (store.totals(), store.index.first_ts, store.index.last_ts) == ((0, 0, 0, []), 0, 0)
    store.publish("s.1", "s.2")
    last_ts = store.index.last_ts
    assert store.catalog.remove("S", 1, now_ns=NOW, rows=store.rows)
    assert store.totals() == (1, 2, 2, [])
    assert store.catalog.remove("S", 2, now_ns=NOW, rows=store.rows)
    assert (store.totals(), store.index.first_ts, store.index.last_ts) == ((0, 3, 2, []), 0, last_ts)
    assert not store.catalog.remove("S", 2, now_ns=NOW, rows=store.rows)
    assert not store.catalog.remove("S", 0, now_ns=NOW, rows=store.rows)
    assert not store.catalog.remove("S", 600, now_ns=NOW, rows=store.rows)
    assert (store.index.bytes, store.index.num_subjects, store.index.num_deleted) == (0, 0, 0)


def test_removal_rows(ten: Store) -> None:
    """A deleted message is named, with whether the past may still show it."""
    assert read_removal(ten.last_row.data)[0] == ([(9, 9)], "delete", True)
    ten.catalog.remove("S", 1, now_ns=NOW, rows=ten.rows, erase=False)
    row = ten.last_row
    assert read_removal(row.data)[0] == ([(1, 1)], "delete", False)
    assert (row.seq, row.event_no, row.first_seq, row.crc) == (10, 3, 2, checksum("", None, row.data))
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]


def test_denied() -> None:
    """Deletes and purges can be switched off."""
    store = Store(replace(PLAIN, deny_delete=True, deny_purge=True))
    store.publish("s.1")
    with pytest.raises(ApiRefusal) as purge:
        store.catalog.purge("S", now_ns=NOW, rows=store.rows)
    assert purge.value == ApiRefusal(500, 10110, "stream purge not permitted")
    with pytest.raises(ApiRefusal) as delete:
        store.catalog.remove("S", 1, now_ns=NOW, rows=store.rows)
    assert delete.value == ApiRefusal(500, 10057, "message delete not permitted")


def test_names_and_overlaps() -> None:
    """Streams have their own names and subjects."""
    store = Store()
    catalog, rows = store.catalog, store.rows
    for config, err_code in [
        (PLAIN, 10058),
        (StreamConfig("T", ("*.a",)), 10065),
        (StreamConfig("T", ("t", "s.x.y")), 10065),
    ]:
        with pytest.raises(ApiRefusal) as refused:
            catalog.create(config, now_ns=NOW, rows=rows)
        assert refused.value.err_code == err_code
    catalog.create(StreamConfig("T", ("t",)), now_ns=NOW, rows=rows)
    with pytest.raises(ApiRefusal) as refused:
        catalog.update(StreamConfig("T", ("s.b",)), now_ns=NOW, rows=rows)
    assert refused.value.err_code == 10065
    for call in (
        lambda: catalog.update(StreamConfig("U", ("u",)), now_ns=NOW, rows=rows),
        lambda: catalog.delete("U", now_ns=NOW, rows=rows),
        lambda: catalog.purge("U", now_ns=NOW, rows=rows),
        lambda: catalog.remove("U", 1, now_ns=NOW, rows=rows),
    ):
        with pytest.raises(ApiRefusal) as unknown:
            call()
        assert unknown.value.err_code == 10059
    assert [row.kind for row in rows.rows()] == ["stream", "stream"]


def test_routes_follow_the_streams() -> None:
    """A cached route does not outlive the stream or its subjects."""
    store = Store()
    catalog, rows = store.catalog, store.rows
    for subject in (b"s.1", b"t.1", b"t.x.1", b"any"):
        catalog.routes.find(subject)
    catalog.create(StreamConfig("T", ("t.*", "t.x.*")), now_ns=NOW, rows=rows)
    taken = [catalog.routes.find(name) for name in (b"s.1", b"t.1", b"t.x.1", b"q.x.1", b"any")]
    assert [route and route.state.name for route in taken] == ["S", "T", "T", None, None]
    catalog.update(StreamConfig("T", ("t.1",)), now_ns=NOW, rows=rows)
    assert [route and route.state.name for route in catalog.routes.find_all([b"t.1", b"t.x.1"])] == ["T", None]
    catalog.delete("T", now_ns=NOW, rows=rows)
    assert catalog.routes.find(b"t.1") is None
    assert catalog.routes.stream_of("s.q") is catalog.streams["S"]
    other = Catalog()
    other.create(StreamConfig("W", ("*.x",)), now_ns=NOW, rows=rows)
    assert [route and route.subject for route in other.routes.find_all([b"a.x", b"x", b"b.x"])] == ["a.x", None, "b.x"]


@pytest.mark.parametrize(
    ("limits", "totals", "removed"),
    [
        ({"max_msgs": 5, "discard": "new"}, (10, 1, 10, []), None),
        ({"max_msgs": 5}, (5, 6, 10, []), []),
        ({"max_bytes": 130}, (3, 8, 10, []), []),
        ({"max_msgs": 5, "max_bytes": 130}, (3, 8, 10, []), []),
        ({"max_msgs_per_subject": 1}, (3, 8, 10, []), [(1, 7)]),
        ({"max_msgs_per_subject": 1, "discard": "new"}, (3, 8, 10, []), [(1, 7)]),
        ({"max_msgs_per_subject": 3}, (9, 2, 10, []), [(1, 1)]),
        ({"max_msgs_per_subject": 3, "max_msgs": 4}, (4, 7, 10, []), [(1, 1)]),
    ],
)
def test_lowered_limits_apply_at_once(
    limits: dict[str, object], totals: tuple[int, int, int, list[int]], removed: list[tuple[int, int]] | None
) -> None:
    """And are recorded behind the configuration; with discard new only those per subject apply."""
    store = Store()
    store.publish(*(f"s.{number % 3}" for number in range(1, 11)), size=10)
    config = replace(PLAIN, **limits)  # type: ignore[arg-type]
    store.catalog.update(config, now_ns=NOW, rows=store.rows)
    assert store.totals() == totals
    kinds = [row.kind for row in store.rows.rows()][11:]
    assert kinds == (["stream"] if removed is None else ["stream", "remove"])
    if removed is not None:
        assert read_removal(store.last_row.data)[0] == (removed, "limits", False)


def test_limits_that_are_just_met() -> None:
    """Remove nothing: three messages of 34 bytes fit into 102."""
    for number in (1, 10):
        store = Store(replace(PLAIN, max_bytes=102))
        for _ in range(10 // number):
            store.publish(*["s.1"] * number)
        assert (store.totals(), store.index.bytes) == ((3, 8, 10, []), 102)
        assert [row.first_seq for row in store.rows.rows()][1:] == [1, 1, 1, 2, 3, 4, 5, 6, 7, 8]


def test_age() -> None:
    """Messages go from the front when their time is over, recorded by one row for all."""
    store = Store(replace(PLAIN, max_age=10 * SECOND))
    assert store.catalog.next_expiry_ns() == 0
    store.publish("s.1", "s.2")
    store.now += SECOND
    store.publish("s.3")
    first, last = store.index.live.ts_of(1), store.index.live.ts_of(3)
    assert store.catalog.next_expiry_ns() == first + 10 * SECOND
    assert store.catalog.expire(now_ns=first + 10 * SECOND - 1, rows=store.rows) == 0
    before = len(store.rows)
    assert store.catalog.expire(now_ns=first + 10 * SECOND + 1, rows=store.rows) == 2
    assert len(store.rows) == before + 1
    assert (store.last_row.kind, store.last_row.first_seq) == (Kind.REMOVE, 3)
    assert read_removal(store.last_row.data)[0] == ([], "age", False)
    assert store.catalog.expire(now_ns=last + 10 * SECOND, rows=store.rows) == 1
    assert store.totals() == (0, 4, 3, [])


def test_a_stream_of_the_same_name_is_another_one() -> None:
    """Rows of the old one are passed over, however often they come, and ids differ even at one instant."""
    store = Store()
    store.publish("s.1", "s.2")
    store.catalog.delete("S", now_ns=NOW, rows=store.rows)
    old = list(store.rows.rows())
    store.catalog.create(replace(PLAIN, max_msgs=7), now_ns=NOW - SECOND, rows=store.rows)
    store.publish("s.3")
    assert store.totals() == (1, 1, 1, [])
    rows = list(store.rows.rows())
    assert rows[-1].stream_id > rows[0].stream_id
    assert read_stream(rows[-2].data) == (replace(PLAIN, max_msgs=7), NOW - SECOND)
    catalog = Catalog()
    for row in [*old, *old, *rows, *old, *rows]:
        replay_row(catalog, row)
    assert catalog.streams["S"].position == store.catalog.streams["S"].position
    assert subjects_matching(catalog.streams["S"].index) == {"s.3": 1}
    assert marks_of(catalog) == {"S": Watermark(rows[-1].stream_id, 1, 1, 1)}


def test_rows_of_a_stream_that_was_never_created() -> None:
    """Are damage, not something to guess about; settled ends of streams are known from the watermarks."""
    store = Store()
    store.publish("s.1")
    (created, message) = store.rows.rows()
    with pytest.raises(ValueError, match="no row before it created"):
        replay_row(Catalog(), message)
    catalog = Catalog()
    restore_watermarks(catalog, {"S": Watermark(created.stream_id, 1, 2, 1)})
    for row in (created, message):
        replay_row(catalog, row)
    assert catalog.streams == {}


def test_rows_without_payloads_bring_their_sizes() -> None:
    """A rebuild reads no payloads."""
    store = Store()
    store.publish("s.1", "s.2", size=50)
    bare = RowColumns()
    for row in store.rows.rows():
        bare.append(row if row.kind == Kind.STREAM else row._replace(data=b"", headers=None))
    catalog = Catalog()
    replay(catalog, bare, sizes=[0, 83, 83])
    assert catalog.streams["S"].index.bytes == store.index.bytes == 2 * 83


def test_the_last_time_is_known_when_the_last_message_is_gone() -> None:
    """From the row that removed it, also when other events stand between."""
    store = Store()
    store.publish("s.1", "s.2")
    last_ts = store.index.last_ts
    store.catalog.update(replace(PLAIN, max_msgs=7), now_ns=NOW, rows=store.rows)
    store.catalog.remove("S", 2, now_ns=NOW, rows=store.rows)
    catalog = Catalog()
    for row in store.rows.rows():
        if row.kind != Kind.MESSAGE or row.seq != 2:
            replay_row(catalog, row)
    index = catalog.streams["S"].index
    assert (index.last_seq, index.last_ts) == (2, last_ts)


def test_duplicates_are_known_after_a_restart() -> None:
    """Within the window, and no longer."""
    store = Store(replace(PLAIN, duplicate_window=2 * SECOND, max_msgs=1))
    store.publish("s.1", msg_id="a")
    store.now += SECOND
    store.publish("s.1", msg_id="b")
    catalog = Catalog()
    replay(catalog, store.rows)
    state = catalog.streams["S"]
    assert (state.dedup.find("a"), state.dedup.find("b"), state.last_msg_id, len(state.dedup)) == (1, 2, "b", 2)
    state.dedup.forget(state.index.last_ts + SECOND + 1)
    assert (state.dedup.find("a"), state.dedup.find("b")) == (0, 2)


def test_stream_rows_are_readable() -> None:
    """Plain JSON: the configuration as the API shows it, and when the stream was made."""
    shown = json.loads(Store().last_row.data)
    assert shown["created_ns"] == NOW
    assert shown["config"]["subjects"] == ["s.>"]


def test_many_subjects_come_and_go() -> None:
    """Subjects without messages do not pile up, and routes survive their new numbers."""
    store = Store(replace(PLAIN, max_msgs=50))
    for start in range(0, 30_000, 500):
        store.publish(*(f"s.{number}" for number in range(start, start + 500)))
    assert len(store.index.table.names) < 10_000
    assert store.index.renumbered > 0
    assert subjects_matching(store.index) == {f"s.{number}": 1 for number in range(29_950, 30_000)}
    store.publish("s.29999")
    assert last_by_subject(store.index, "s.29999") == store.index.last_seq == 30_001


def test_streams_made_at_one_time_have_ids_of_their_own() -> None:
    """Also one that comes in the place of a deleted one, and after a restart that only knows watermarks."""
    store = Store()
    for name in ("T", "U"):
        store.catalog.create(StreamConfig(name=name, subjects=(name,)), now_ns=NOW, rows=store.rows)
    store.catalog.delete("U", now_ns=NOW, rows=store.rows)
    store.catalog.create(StreamConfig(name="U", subjects=("U",)), now_ns=NOW, rows=store.rows)
    assert sorted(set(store.rows.stream_id)) == [NOW, NOW + 1, NOW + 2, NOW + 3]
    again = Catalog()
    replay(again, store.rows)
    restore_watermarks(again, {"GONE": Watermark(NOW + 9, 4, 1, 1)})
    again.create(StreamConfig(name="V", subjects=("V",)), now_ns=NOW, rows=store.rows)
    assert store.rows.stream_id[-1] == NOW + 10
