"""A stream as it stood, held against a replay: configuration, what was live, in numbers and as messages."""

import random
from pathlib import Path

import pytest

from delta_store.index.matching import subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.past_streams import PastStreams
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.streams.event_rows import stream_data
from delta_store.values.as_of import AsOf
from delta_store.values.read_errors import NoSuchStream
from delta_store.values.records import Kind, stored_size
from tests.pasts import Pasts, grown
from tests.tables import History, Tables


def reader(data: Path) -> PastStreams:
    """The past of the streams in a folder."""
    return PastStreams(PointInTime(SettledTable(str(data / "messages")), JournalTail(str(data / "journal"))))


def at_ns(ts_ns: int) -> AsOf:
    """The point of a time."""
    return AsOf(before_ns=ts_ns)


def check(past: PastStreams, pasts: Pasts, as_of: AsOf, live: list[int]) -> None:
    """Compare a state with the live sequences of a replay."""
    found = past.at("S", as_of)
    rows = {row.seq: row for row in pasts.history.rows if row.kind == Kind.MESSAGE}
    index = found.state.index
    assert [seq for seq in rows if index.subject_of(seq) is not None] == live, as_of
    assert (index.msgs, index.bytes) == (
        len(live),
        sum(stored_size(rows[seq].subject, rows[seq].headers, rows[seq].data) for seq in live),
    )
    counts: dict[str, int] = {}
    for seq in live:
        counts[rows[seq].subject] = counts.get(rows[seq].subject, 0) + 1
    assert subjects_matching(index) == counts
    assert index.first_seq == (live[0] if live else index.last_seq + 1 if index.last_seq else 0)
    if live:
        assert index.first_ts == rows[live[0]].ts_ns
    if index.last_seq:
        assert index.last_ts == rows[index.last_seq].ts_ns
    read = past.messages(found, live)
    assert [(one.seq, one.subject, one.data) for one in read] == [
        (seq, rows[seq].subject, rows[seq].data) for seq in live
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_state_of_the_past_is_that_of_a_replay(tmp_path: Path, seed: int) -> None:
    """At sequences and times, whatever removed messages: deletes, purges, rollups, ages, limits; also made again."""
    dice = random.Random(seed)
    pasts = grown(tmp_path, dice)
    past, history = reader(tmp_path), pasts.history
    for seq in dice.sample(range(1, history.seq + 1), min(8, history.seq)):
        check(past, pasts, AsOf(seq=seq), pasts.at(seq))
        assert past.at("S", AsOf(seq=seq)).state.index.last_seq == seq
    check(past, pasts, AsOf(seq=history.seq + 5), pasts.at(history.seq + 5))
    for row in dice.sample(history.rows, 4):
        moment = row.ts_ns // 1_000 * 1_000
        check(past, pasts, at_ns(moment), pasts.before(moment))


def test_the_configuration_is_that_of_the_point(tmp_path: Path) -> None:
    """An update counts from the next message on, or from its time on."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(max_msgs=10), history.publish("s.1")])
    history.now_ns += 5_000
    history.event_no += 1
    updated = history.create(max_msgs=20)
    tables.commit([updated])
    history.now_ns += 5_000
    tables.commit([history.publish("s.2")])
    past = reader(tmp_path)
    for _ in range(2):
        shown = [
            past.at("S", point).state.config.max_msgs
            for point in (AsOf(seq=1), at_ns(updated.ts_ns), at_ns(updated.ts_ns + 1_000), AsOf(seq=2))
        ]
        assert shown == [10, 10, 20, 20]
        tables.settle()


def test_before_its_creation_there_was_no_stream(tmp_path: Path) -> None:
    """A time before the incarnation shows nothing and says so; a deleted stream has no past."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1")])
    past = reader(tmp_path)
    before = past.at("S", at_ns(history.stream_id))
    assert (before.existed, before.state.index.msgs) == (False, 0)
    assert past.at("S", AsOf(seq=1)).existed
    history.event_no += 1
    tables.commit([history._event(Kind.STREAM_DELETE, b"{}")])
    with pytest.raises(NoSuchStream):
        past.at("S", AsOf(seq=1))


def test_what_is_erased_leaves_states_made_before(tmp_path: Path) -> None:
    """A state that somebody holds gives no message that was erased since; what keeps the past changes nothing."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number}") for number in range(4))])
    tables.settle()
    past = reader(tmp_path)
    held = past.at("S", AsOf(seq=3))
    tables.commit([history.remove([1], "purge", erase=False), history.remove([2], "delete", erase=True)])
    assert [one.seq for one in past.messages(held, [1, 2, 3])] == [1, 3]
    again = past.at("S", AsOf(seq=3))
    assert again.state.index.msgs == 2
    tables.settle()
    tables.apply_limits()
    assert [one.seq for one in past.messages(held, [1, 2, 3])] == [1, 3]


def test_the_same_point_is_read_once(tmp_path: Path) -> None:
    """Until something happens to the stream the state is kept."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1"), history.publish("s.2")])
    past = reader(tmp_path)
    assert past.at("S", AsOf(seq=1)).state is past.at("S", AsOf(seq=1)).state
    assert stream_data(past.at("S", AsOf(seq=1)).state.config, history.stream_id)
