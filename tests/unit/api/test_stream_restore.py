"""Restores without a server: what an archive becomes, what is refused, and that a replay of the rows agrees."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.core.stream_restore import StreamRestore
from consumers.machine.consumer_state import ConsumerState
from delta_store.archive import s2_frames
from delta_store.archive.archive_checker import ArchiveChecker
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import END, MAGIC, ArchiveEntry, encode
from delta_store.config.api_errors import ApiRefusal
from delta_store.streams import restores
from delta_store.streams.account import NO_LIMITS, AccountLimits
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay
from delta_store.streams.stream_config_rules import normalise
from delta_store.values import subjects
from delta_store.values.records import Kind, RowColumns
from delta_store.values.stream_message import MessageRun, StreamMessage
from ingest.publishing.group import Gathering
from tests import old_backups
from tests.old_backups import DELETED, ERASED, Record

NOW_NS = 1_764_000_000_000_000_000
STATE = {"first_seq": 3, "last_seq": 12, "messages": 3, "bytes": 1, "consumer_count": 1}
CONSUMER = {
    "config": {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": "all", "replay_policy": "instant"},
    "state": {
        "delivered": {"consumer_seq": 3, "stream_seq": 5},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 3},
        "pending": {"5": {"Sequence": 3, "Timestamp": NOW_NS}},
        "redelivered": {"5": 1},
    },
}
MESSAGES = [
    ArchiveEntry("s.a", NOW_NS - 30, 3, b"", b"three"),
    ArchiveEntry("s.b", NOW_NS - 20, 4, b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n", b"four"),
    ArchiveEntry("s.a", NOW_NS - 10, 9, b"", b""),
]


def archive(
    state: Any = STATE, consumers: Any = (("c", CONSUMER),), messages: Any = MESSAGES, end: bytes = encode(END)
) -> bytes:
    """An archive with these entries."""
    head = [("state.json", state), *((f"consumers/{name}", shown) for name, shown in consumers)]
    entries = [ArchiveEntry(name, 1, 0, b"", json.dumps(shown).encode()) for name, shown in head]
    content = MAGIC + b"".join(map(encode, [*entries, *messages])) + end
    return s2_frames.BEGIN + s2_frames.encode(content)


class Restoring:
    """A restore into a catalog of its own."""

    def __init__(
        self, *, is_tar: bool = False, resume: str = "", limits: AccountLimits = NO_LIMITS, **config: Any
    ) -> None:
        self.catalog, self.gathering = Catalog(), Gathering()
        self.catalog.account.limits = limits
        self.config = normalise({"name": "S", "subjects": ["s.>"], **config})
        self.restore = StreamRestore.begun(
            self.catalog, self.gathering, self.config, now_ns=NOW_NS, has_deleted=is_tar, resume=resume
        )
        self.checker = ArchiveChecker("S", message_bytes_max=1000, sequence_max=2**62, valid_subject=subjects.literal)

    def feed(self, data: bytes, size: int = 1 << 20) -> None:
        """Take an archive in parts of this size; one that is not whole is refused."""
        for start in range(0, len(data), size):
            self.restore.take(list(self.checker.feed(data[start : start + size])), NOW_NS)
        if not self.checker.ended:
            raise BadArchive("unexpected EOF")
        self.restore.finish(NOW_NS)

    def replayed(self) -> Catalog:
        """What a start makes of the rows."""
        catalog = Catalog()
        replay(catalog, self.gathering.group.rows)
        return catalog


def shown(catalog: Catalog) -> Any:
    """All of a stream that matters."""
    state = catalog.streams["S"]
    index = state.index
    live = index.live.sequences(index.first_seq, index.last_seq).tolist()
    bounds = (index.first_seq, index.last_seq, index.msgs, index.bytes, index.last_ts)
    state.dedup.forget(state.clock_ns)
    ids = sorted(state.dedup.items())
    return state.position, live, bounds, [index.subject_of(seq) for seq in live], state.consumers, ids, state.restored


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_restored_stream_has_its_gaps_and_bounds(size: int) -> None:
    """Messages keep sequence and time; what is gone stays gone; the journal says the same."""
    restoring = Restoring()
    restoring.feed(archive(), size)
    assert "S" not in restoring.catalog.streams
    restoring.restore.show(NOW_NS)
    state = restoring.catalog.streams["S"]
    assert state.index.live.sequences(1, 12).tolist() == [3, 4, 9]
    assert (state.index.first_seq, state.index.last_seq) == (3, 12)
    assert [state.index.live.ts_of(seq) for seq in (3, 4, 9)] == [NOW_NS - 30, NOW_NS - 20, NOW_NS - 10]
    assert state.dedup.find("x") == 4
    assert shown(restoring.replayed()) == shown(restoring.catalog)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (1, 0), (8, 7), (1, 5), (4, 9)], ids=["never used", "empty", "advanced", "gone", "late"]
)
def test_a_stream_without_messages_keeps_its_bounds(first: int, last: int) -> None:
    """The next sequence is the one it would have been."""
    restoring = Restoring()
    restoring.feed(archive({"first_seq": first, "last_seq": last, "messages": 0}, (), ()))
    restoring.restore.show(NOW_NS)
    assert restoring.catalog.streams["S"].index.last_seq == last
    assert shown(restoring.replayed()) == shown(restoring.catalog)


def test_what_is_not_done_is_dropped() -> None:
    """A refused restore leaves no stream, nor does a process that ended amid one."""
    restoring = Restoring()
    with pytest.raises(BadArchive):
        restoring.feed(archive(end=b""))
    before = restoring.replayed()
    rows = restoring.gathering.group.rows
    assert [state.restored for state in before.streams.values()] == ["begun"]
    restores.drop_unfinished(before, now_ns=NOW_NS, rows=rows)
    assert not before.streams
    restoring.restore.drop(NOW_NS)
    assert not restoring.catalog.restoring
    assert not restoring.replayed().streams


def broken_off(**config: Any) -> tuple[Restoring, Catalog]:
    """A restore with a word, whose archive ended behind its second message, and what a start makes of its rows."""
    restoring = Restoring(resume="word", **config)
    with pytest.raises(BadArchive, match="EOF"):
        restoring.feed(archive(messages=MESSAGES[:2], end=b""))
    catalog = restoring.replayed()
    restores.drop_unfinished(catalog, now_ns=NOW_NS, rows=restoring.gathering.group.rows)
    return restoring, catalog


def test_what_broke_off_is_gone_on_with() -> None:
    """By the same word and configuration, also after a start; nobody saw it meanwhile, and its consumers come anew."""
    restoring, catalog = broken_off()
    assert (list(catalog.streams), list(catalog.restoring)) == ([], [])
    assert restores.resumed(catalog, restoring.config, "another") is None
    assert restores.resumed(catalog, normalise({"name": "S", "subjects": ["t"]}), "word") is None
    state = restores.resumed(catalog, restoring.config, "word")
    assert state is not None
    assert state.index.last_seq == 4
    assert restores.resumed(catalog, restoring.config, "word") is None
    restoring.catalog = catalog
    restoring.restore = StreamRestore(catalog, restoring.gathering, restoring.config, state)
    restoring.checker = ArchiveChecker("S", message_bytes_max=1000, sequence_max=2**62, valid_subject=subjects.literal)
    restoring.feed(archive(consumers=(("d", CONSUMER | {"config": {"durable_name": "d"}}),), messages=MESSAGES[2:]))
    restoring.restore.show(NOW_NS)
    found = catalog.streams["S"]
    assert found.index.live.sequences(1, 12).tolist() == [3, 4, 9]
    assert (list(found.consumers), found.index.last_seq, found.restored) == (["d"], 12, "done")
    assert found.dedup.find("x") == 4
    assert shown(restoring.replayed()) == shown(catalog)


@pytest.mark.parametrize("how", ["create", "restore", "too late"])
def test_what_broke_off_keeps_nobody_from_its_name(how: str) -> None:
    """Another stream or restore of its name takes its place; a day later nothing is left of it."""
    restoring, catalog = broken_off()
    rows = restoring.gathering.group.rows
    if how == "create":
        catalog.create(restoring.config, now_ns=NOW_NS + 1, rows=rows)
    elif how == "restore":
        restores.begin(catalog, restoring.config, now_ns=NOW_NS + 1, rows=rows)
    else:
        assert not restores.give_up_late(catalog, now_ns=NOW_NS + 10**9, rows=rows)
        assert restores.give_up_late(catalog, now_ns=NOW_NS + 25 * 3600 * 10**9, rows=rows)
    assert restores.resumed(catalog, restoring.config, "word") is None
    assert (list(catalog.restoring), list(catalog.streams)) == (["S"] * (how == "restore"), ["S"] * (how == "create"))
    found = restoring.replayed().streams
    assert [state.index.msgs for state in found.values()] == [0] * (how != "too late")


def test_a_name_or_subject_that_is_being_restored_is_taken() -> None:
    """Neither a second restore nor a new stream gets the name; subjects that are taken meanwhile refuse the end."""
    restoring = Restoring()
    catalog, rows = restoring.catalog, restoring.gathering.group.rows
    with pytest.raises(ApiRefusal):
        StreamRestore.begun(catalog, restoring.gathering, restoring.config, now_ns=NOW_NS)
    with pytest.raises(ApiRefusal):
        catalog.create(restoring.config, now_ns=NOW_NS, rows=rows)
    catalog.create(normalise({"name": "T", "subjects": ["s.>"]}), now_ns=NOW_NS, rows=rows)
    restoring.feed(archive())
    with pytest.raises(ApiRefusal):
        restoring.restore.show(NOW_NS)


def test_an_account_without_room_takes_no_restore() -> None:
    """Neither one that reserves too much, nor one that holds too much in the end."""
    restoring = Restoring()
    restoring.catalog.account.limits = AccountLimits(max_storage=100)
    with pytest.raises(ApiRefusal, match="resource limits exceeded for account"):
        restoring.feed(archive())
    with pytest.raises(ApiRefusal, match="insufficient storage"):
        restores.begin(restoring.catalog, normalise({"name": "T", "max_bytes": 101}), now_ns=NOW_NS, rows=RowColumns())


def test_restores_at_the_same_time_share_what_the_account_has() -> None:
    """What one holds and its place among the streams are not there for another."""
    restoring = Restoring()
    catalog = restoring.catalog
    restoring.feed(archive())
    catalog.account.limits = AccountLimits(max_storage=restoring.restore.state.index.bytes)
    other = StreamRestore.begun(
        catalog, restoring.gathering, normalise({"name": "T", "subjects": ["t"]}), now_ns=NOW_NS
    )
    with pytest.raises(ApiRefusal, match="resource limits exceeded for account"):
        other.store(MessageRun.of([StreamMessage("t", 1, NOW_NS, None, b"")]), NOW_NS)
    catalog.account.limits = AccountLimits(max_streams=2)
    with pytest.raises(ApiRefusal, match="maximum number of streams reached"):
        StreamRestore.begun(catalog, restoring.gathering, normalise({"name": "U", "subjects": ["u"]}), now_ns=NOW_NS)
    catalog.account.limits = AccountLimits(max_storage=restoring.restore.state.index.bytes)
    with pytest.raises(ApiRefusal, match="resource limits exceeded for account"):
        restoring.restore.show(NOW_NS)
    other.drop(NOW_NS)
    restoring.restore.show(NOW_NS)


def test_a_tar_counts_as_what_it_will_be() -> None:
    """Its own ``max_bytes`` is what the account asks for; where that is gone in the end, nothing of it stays."""
    restoring = Restoring(is_tar=True, max_bytes=900, limits=AccountLimits(max_bytes_required=True, max_storage=1000))
    catalog, rows = restoring.catalog, restoring.gathering.group.rows
    restoring.feed(tar_archive(old_backups.state(4, 2, 9, [5])))
    catalog.create(normalise({"name": "T", "max_bytes": 500}), now_ns=NOW_NS, rows=rows)
    with pytest.raises(ApiRefusal, match="insufficient storage"):
        restoring.restore.show(NOW_NS)
    restoring.restore.drop(NOW_NS)
    assert list(restoring.replayed().streams) == list(catalog.streams) == ["T"]


def test_limits_of_the_stream_hold() -> None:
    """As in nats-server a smaller stream keeps the newest messages."""
    restoring = Restoring(max_msgs=2)
    restoring.feed(archive())
    restoring.restore.show(NOW_NS)
    assert restoring.catalog.streams["S"].index.live.sequences(1, 12).tolist() == [4, 9]
    assert shown(restoring.replayed()) == shown(restoring.catalog)


def message(**fields: Any) -> ArchiveEntry:
    """A message that could be the first."""
    return MESSAGES[0]._replace(**fields)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"state": [1]}, "state.json"),
        ({"state": STATE | {"consumer_count": -1}}, "negative consumer count"),
        ({"state": STATE | {"first_seq": 14}}, "inconsistent"),
        ({"state": STATE | {"messages": 11}}, "message count exceeds"),
        ({"state": STATE | {"last_seq": 2**63}}, "beyond"),
        ({"state": STATE | {"last_seq": 1e3}}, "last_seq"),
        ({"consumers": ()}, "expected consumer"),
        ({"consumers": (("c", CONSUMER), ("d", CONSUMER))}, "expected message sequence"),
        ({"consumers": (("c", {"config": {}}),)}, "missing state"),
        ({"consumers": (("c", {"state": {}}),)}, "missing config"),
        ({"consumers": (("a.b", CONSUMER),)}, "failed to add consumer"),
        ({"consumers": (("d", CONSUMER),)}, "failed to add consumer"),
        ({"consumers": (("c", CONSUMER | {"state": {"delivered": {"stream_seq": -1}}}),)}, "failed to set"),
        ({"consumers": (("c", CONSUMER | {"state": {"pending": {"7": {"Sequence": 1, "Timestamp": 1}}}}),)}, "set"),
        ({"consumers": (("c", CONSUMER | {"state": {"pending": [1]}}),)}, "failed to set"),
        ({"messages": [message(seq=2)]}, "out of order"),
        ({"messages": [message(), message()]}, "out of order"),
        ({"messages": [message(seq=13)]}, "behind the last"),
        ({"messages": [message(payload=bytes(1001))]}, "exceeds maximum message size"),
        ({"messages": [message(name="s.*")]}, "invalid subject"),
        ({"messages": [message(name="")]}, "invalid subject"),
        ({"messages": [message(ts_ns=2**63 - 1)]}, "times"),
        ({"messages": [message(ts_ns=-(2**63))]}, "times"),
        ({"messages": [message(name="a b")]}, "invalid subject"),
        ({"messages": [message(seq=0)]}, "expected message sequence"),
        ({"end": b""}, "EOF"),
    ],
)
def test_hostile_archives_are_refused(told: dict[str, Any], text: str) -> None:
    """Each lie has its error, and nothing is left when the restore is dropped."""
    restoring = Restoring()
    with pytest.raises(BadArchive, match=text):
        restoring.feed(archive(**told))
    restoring.restore.drop(NOW_NS)
    assert not restoring.replayed().streams


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.randoms(use_true_random=False))
def test_any_damage_is_refused_or_harmless(size: int, dice: random.Random) -> None:
    """Entries with changed bytes under valid checksums give our error, or a stream that replays to itself."""
    content = bytearray(b"".join(s2_frames.FrameReader().feed(archive())))
    for _ in range(dice.randrange(1, 4)):
        content[dice.randrange(len(MAGIC), len(content))] = dice.randrange(256)
    restoring = Restoring()
    try:
        restoring.feed(s2_frames.BEGIN + s2_frames.encode(bytes(content)), size)
    except BadArchive:
        restoring.restore.drop(NOW_NS)
        assert not restoring.replayed().streams
    else:
        restoring.restore.show(NOW_NS)
        assert shown(restoring.replayed()) == shown(restoring.catalog)


def test_positions_of_sources_come_from_the_headers() -> None:
    """A restored stream goes on with its sources where the copies in it end."""
    copied = b"NATS/1.0\r\nNats-Stream-Source: O 41 > > o.x AbCdEfGh\r\n\r\n"
    restoring = Restoring(sources=[{"name": "O"}])
    restoring.feed(archive(messages=[message(headers=copied)]))
    restoring.restore.show(NOW_NS)
    assert restoring.catalog.streams["S"].sources == {"O > >": (41, "AbCdEfGh")}
    assert Kind.SOURCE_STATE in restoring.gathering.group.rows.kind


TAR_RECORDS = [
    *(Record(seq, NOW_NS - 100 + seq, "s.a", b"", b"m") for seq in range(1, 8)),
    Record(4, NOW_NS, mark=DELETED),
    Record(9, NOW_NS, mark=ERASED),
]


TAR_BLOCK = old_backups.block(TAR_RECORDS)


def tar_state(messages: int, first: int, last: int, deleted: Sequence[int] = ()) -> bytes:
    """The state of a stream with these records."""
    return old_backups.state(messages, first, last, deleted, last_hash=TAR_BLOCK[-8:])


def tar_archive(index: bytes | None) -> bytes:
    """A backup of a server before 2.15, with this state."""
    progress = old_backups.consumer_state((1, 3), (3, 6), {6: (3, 9)})
    consumers = [("c", CONSUMER["config"], progress)]
    return old_backups.framed(old_backups.tar(old_backups.files("S", [TAR_BLOCK], index, consumers)))


@pytest.mark.parametrize("size", [50, 1 << 20])
def test_a_tar_is_restored_without_what_was_deleted(size: int) -> None:
    """Limits count what is live: they are applied when all is there, and take nothing that the origin had."""
    restoring = Restoring(is_tar=True, max_msgs=4)
    restoring.feed(tar_archive(tar_state(4, 2, 9, [5])), size)
    restoring.restore.show(NOW_NS)
    state = restoring.catalog.streams["S"]
    assert state.index.live.sequences(1, 9).tolist() == [2, 3, 6, 7]
    assert (state.index.first_seq, state.index.last_seq, state.config.max_msgs) == (2, 9, 4)
    assert ConsumerState.decode(state.consumers["c"].state).pending == {6: (3, 9_000_000_000)}
    assert shown(restoring.replayed()) == shown(restoring.catalog)


def test_limits_count_where_a_tar_has_no_state() -> None:
    """Nothing says then what limits had removed."""
    restoring = Restoring(is_tar=True, max_msgs=4)
    restoring.feed(tar_archive(None))
    restoring.restore.show(NOW_NS)
    assert restoring.catalog.streams["S"].index.live.sequences(1, 9).tolist() == [3, 5, 6, 7]
    assert shown(restoring.replayed()) == shown(restoring.catalog)


def test_a_tar_that_counts_otherwise_is_refused() -> None:
    """Where messages are missing, the count in the state tells."""
    with pytest.raises(BadArchive, match="the archive has 4 messages, its state says 5"):
        Restoring(is_tar=True).feed(tar_archive(tar_state(5, 2, 9, [5])))


@pytest.mark.parametrize(("first", "last"), [(1, 0), (8, 7), (4, 9)])
def test_an_empty_tar_keeps_its_bounds(first: int, last: int) -> None:
    """The next sequence is the one it would have been."""
    restoring = Restoring(is_tar=True)
    content = old_backups.block([Record(last, 1, mark=DELETED)])
    files = old_backups.files("S", [content], old_backups.state(0, first, last, last_hash=content[-8:]))
    restoring.feed(old_backups.framed(old_backups.tar(files)))
    restoring.restore.show(NOW_NS)
    assert restoring.catalog.streams["S"].index.last_seq == last
    assert shown(restoring.replayed()) == shown(restoring.catalog)
