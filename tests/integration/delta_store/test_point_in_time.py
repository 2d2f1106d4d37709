"""The past as time travel gives it, held against a model that replays the rows one by one."""

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable

from conf.data_location import DataLocation
from delta_store.config.stream_parts import StreamSource
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.past_streams import PastStreams
from delta_store.reading.point_in_time import PointInTime, multi_last
from delta_store.reading.settled import SettledTable
from delta_store.values.as_of import AsOf
from delta_store.values.read_errors import DamagedData, NoSuchStream, PastHorizon, TooMany
from delta_store.values.records import Kind, Row
from delta_store.values.subjects import SubjectFilter
from tests.tables import START_NS, History, Tables, grown, live_before, live_sequences, sequence_before

FILTERS = [["s.>"], ["s.1"], ["s.0", "s.3"], ["s.*", "s.2"], ["none"]]


def reader(tables: Tables) -> PointInTime:
    """A reader of the folder with small caches."""
    settled = SettledTable(str(tables.data / "messages"), cache_bytes=4096)
    return PointInTime(settled, JournalTail(str(tables.data / "journal"), cache_bytes=4096))


def truth(rows: list[Row], filters: list[str], point: int) -> list[int]:
    """The last live message of each matching subject at a point."""
    return last_of(rows, filters, live_sequences(rows, point))


def truth_before(rows: list[Row], filters: list[str], ts_ns: int) -> list[int]:
    """The same at a time."""
    return last_of(rows, filters, live_before(rows, ts_ns))


def last_of(rows: list[Row], filters: list[str], live: set[int]) -> list[int]:
    """The last of each matching subject among the live messages."""
    chosen = SubjectFilter(filters)
    last = {row.subject: row.seq for row in rows if row.seq in live and row.kind == Kind.MESSAGE}
    return sorted(seq for subject, seq in last.items() if chosen.matches(subject))


@pytest.mark.parametrize("seed", range(10))
def test_every_point_gives_the_true_past(tmp_path: Path, seed: int) -> None:
    """At each sequence the answer is what a replay gives, also for what limits removed since; erased never returns."""
    tables, history = grown(tmp_path, seed)
    past = reader(tables)
    for point in range(1, history.seq + 1):
        for filters in random.Random(point).sample(FILTERS, 2):
            state = past.multi_last("S", filters, up_to_seq=point)
            assert [message.seq for message in state.messages] == truth(history.rows, filters, point), (point, filters)
            assert state.up_to_seq == point
    for message in past.multi_last("S", ["s.>"], up_to_seq=history.seq).messages:
        assert message.data == f"S/{message.seq}".encode()


@pytest.mark.parametrize("seed", range(4))
def test_now_has_all_later_events_applied(tmp_path: Path, seed: int) -> None:
    """Without a point the newest state is given, with the events behind the last message."""
    tables, history = grown(tmp_path, seed)
    tables.commit([history.remove([max(history.live)], "delete", erase=False)])
    state = reader(tables).multi_last("S", ["s.>"])
    assert [message.seq for message in state.messages] == truth(history.rows, ["s.>"], 1 << 61)


@pytest.mark.parametrize("seed", range(6))
def test_a_time_means_the_last_message_before_it_removed_or_not(tmp_path: Path, seed: int) -> None:
    """A time resolves over the true history, exclusive of messages at exactly that time."""
    tables, history = grown(tmp_path, seed)
    past = reader(tables)
    messages = [row for row in history.rows if row.kind == Kind.MESSAGE]
    for row in messages:
        for ts_ns in (row.ts_ns, row.ts_ns + 1):
            before = max((one.seq for one in messages if one.ts_ns < ts_ns), default=0)
            assert sequence_before(past, "S", ts_ns) == before
    assert past.multi_last("S", ["s.>"], up_to_ts_ns=messages[0].ts_ns).messages == []


@pytest.mark.parametrize("seed", range(6))
def test_a_time_shows_what_was_removed_before_it(tmp_path: Path, seed: int) -> None:
    """At each time, also those between a message and a removal behind it, the answer is what a replay gives."""
    tables, history = grown(tmp_path, seed)
    tables.commit([history.remove([max(history.live)], "delete", erase=False)])
    past = reader(tables)
    for row in history.rows:
        for ts_ns in (row.ts_ns, row.ts_ns + 1):
            found = past.multi_last("S", ["s.>"], up_to_ts_ns=ts_ns).messages
            assert [message.seq for message in found] == truth_before(history.rows, ["s.>"], ts_ns), (row, ts_ns)


def test_log_cleanup_without_a_new_version_is_noticed(tmp_path: Path) -> None:
    """What settled a point is gone from the log that was listed before: refused, never answered by a later version."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.commit([history.create()])
    for number in range(8):
        tables.commit([history.publish(f"s.{(number + one) % 4}") for one in range(3)])
        tables.settle()
        tables.apply_limits()
        if number == 3:
            DeltaTable(str(tmp_path / "messages")).create_checkpoint()
    past = reader(tables)
    wanted = {point: truth(history.rows, ["s.>"], point) for point in range(1, history.seq + 1)}
    newest = past.multi_last("S", ["s.>"], up_to_seq=history.seq)
    assert [one.seq for one in newest.messages] == wanted[history.seq]
    log = tmp_path / "messages" / "_delta_log"
    [checkpoint] = log.glob("*.checkpoint.parquet")
    for entry in log.glob("*.json"):
        if entry.name[:20] < checkpoint.name[:20]:
            entry.unlink()
    refused = 0
    for point, seqs in wanted.items():
        try:
            state = past.multi_last("S", ["s.>"], up_to_seq=point)
        except PastHorizon:
            refused += 1
            continue
        assert [one.seq for one in state.messages] == seqs, point
    assert refused > 10


def test_the_answer_does_not_change_while_rows_settle(tmp_path: Path) -> None:
    """The same point gives the same answer before and after settling, limits, compaction and truncation."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number % 3}") for number in range(9))])
    past = reader(tables)
    steps = [lambda: None, lambda: tables.settle(tables.rows[:6]), tables.settle, tables.apply_limits, tables.compact]
    for step in [*steps, tables.truncate]:
        step()
        found = [message.seq for message in past.multi_last("S", ["s.>"], up_to_seq=5).messages]
        assert found == [3, 4, 5]


def test_a_point_whose_version_was_cleaned_up_is_past_the_horizon(tmp_path: Path) -> None:
    """Without the version that settled a sequence there is no answer, rather than a wrong one."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.commit([history.create()])
    for number in range(4):
        if number == 3:
            DeltaTable(str(tmp_path / "messages")).create_checkpoint()
        tables.commit([history.publish("s.1"), history.publish("s.2")])
        tables.settle()
        tables.apply_limits()
    for entry in sorted((tmp_path / "messages/_delta_log").glob("*.json"))[:4]:
        entry.unlink()
    past = reader(tables)
    with pytest.raises(PastHorizon, match="the oldest that can be read is sequence 7"):
        past.multi_last("S", ["s.>"], up_to_seq=2)
    with pytest.raises(PastHorizon):
        sequence_before(past, "S", history.rows[2].ts_ns)
    assert [message.seq for message in past.multi_last("S", ["s.>"], up_to_seq=8).messages] == [7, 8]
    assert sequence_before(past, "S", history.now_ns + 1) == 8


def test_a_vacuumed_file_is_past_the_horizon(tmp_path: Path) -> None:
    """An old version whose files vacuum took gives the horizon's error too."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1"), history.publish("s.1")])
    tables.settle(tables.rows[:2])
    tables.settle()
    tables.apply_limits()
    DeltaTable(str(tmp_path / "messages")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(PastHorizon, match="the oldest that can be read is sequence 2"):
        reader(tables).multi_last("S", ["s.>"], up_to_seq=1)


def test_a_stream_that_has_been_quiet_for_longer_than_the_horizon_is_read(tmp_path: Path) -> None:
    """Nothing has happened since the point, so its state is the present one; that before a removal is not known."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1"), history.publish("s.2")])
    tables.settle()
    removal = history.remove([1], "age", erase=False)
    tables.commit([removal])
    tables.settle()
    tables.apply_limits()
    DeltaTable(str(tmp_path / "messages")).create_checkpoint()
    other = History(stream="OTHER")
    tables.commit([other.create(), other.publish("s.1")])
    tables.settle()
    for entry in sorted((tmp_path / "messages/_delta_log").glob("*.json"))[:3]:
        entry.unlink()
    past = reader(tables)
    then = past.multi_last("S", ["s.>"], up_to_ts_ns=removal.ts_ns + 1)
    assert ([one.seq for one in then.messages], then.up_to_seq) == ([2], 2)
    assert sequence_before(past, "S", removal.ts_ns + 1) == 2
    with pytest.raises(PastHorizon, match="past the history horizon"):
        past.multi_last("S", ["s.>"], up_to_seq=2)


def test_another_incarnation_does_not_shine_through(tmp_path: Path) -> None:
    """A stream deleted and made again starts anew: nothing of the old one is found at any point."""
    old, tables = History(), Tables(tmp_path)
    tables.commit([old.create(), old.publish("s.1"), old.publish("s.old")])
    tables.settle()
    old.event_no += 1
    gone = old._event(Kind.STREAM_DELETE, b"{}")
    tables.commit([gone])
    past = reader(tables)
    with pytest.raises(NoSuchStream):
        past.multi_last("S", ["s.>"])
    new = History(stream_id=old.stream_id + 1_000_000, now_ns=old.now_ns + 1_000_000)
    tables.commit([new.create(), new.publish("s.1", b"new")])
    assert [message.data for message in past.multi_last("S", ["s.>"], up_to_seq=1).messages] == [b"new"]
    tables.settle()
    assert [message.data for message in past.multi_last("S", ["s.>"], up_to_seq=1).messages] == [b"new"]
    with pytest.raises(NoSuchStream):
        past.multi_last("NONE", ["s.>"])


@pytest.mark.parametrize("fields", [{}, {"mirror": StreamSource("O"), "subjects": ()}], ids=["stream", "mirror"])
def test_a_time_before_the_stream_was_created(tmp_path: Path, fields: dict[str, object]) -> None:
    """It shows nothing, but of a mirror the messages that its origin had then, also once they are settled."""
    tables, made = Tables(tmp_path), History(now_ns=START_NS + 1_000)
    rows = [made.create(**fields)]
    made.now_ns = START_NS
    rows += [made.publish("s.1"), made.publish("s.2")]
    tables.commit(rows)
    for _ in ("in the journal", "settled"):
        found = reader(tables).multi_last("S", ["s.>"], up_to_ts_ns=rows[-1].ts_ns).messages
        assert [one.seq for one in found] == ([1] if fields else [])
        tables.settle()


def test_a_stream_that_was_created_when_the_clock_had_been_set_back(tmp_path: Path) -> None:
    """Its id is behind that of a stream before it, and so later than its messages: times are those of its rows."""
    tables, made = Tables(tmp_path), History(stream_id=START_NS + 5_000)
    rows = [made.create(), made.publish("s.1"), made.publish("s.2")]
    tables.commit(rows)
    for _ in ("in the journal", "settled"):
        past = reader(tables)
        found = [past.multi_last("S", ["s.>"], up_to_ts_ns=row.ts_ns).messages for row in rows]
        assert [[one.seq for one in messages] for messages in found] == [[], [], [1]]
        streams = PastStreams(past)
        assert [streams.at("S", AsOf(before_ns=row.ts_ns)).existed for row in rows] == [False, True, True]
        assert streams.history("S").oldest.from_ns == START_NS + 1_000  # whole microseconds
        tables.settle()


def test_the_gaps_of_a_copy(tmp_path: Path) -> None:
    """What happened behind a gap counts at times since then, and so do messages on both sides of it."""
    tables, made = Tables(tmp_path), History()
    tables.commit([made.create(mirror=StreamSource("O"), subjects=()), first := made.publish("s.1")])
    tables.settle()
    made.seq = 7
    tables.commit([made.remove([], "skip", erase=False)])
    tables.settle()
    tables.commit([second := made.publish("s.2")])
    tables.settle()
    made.seq = 11
    tables.commit([gone := made.remove([8], "limit", erase=False)])
    for _ in ("in the journal", "settled"):
        asked = (first.ts_ns, first.ts_ns + 1, second.ts_ns, second.ts_ns + 1, gone.ts_ns, gone.ts_ns + 1)
        found = [reader(tables).multi_last("S", ["s.>"], up_to_ts_ns=one).messages for one in asked]
        assert [[one.seq for one in messages] for messages in found] == [[], [1], [1], [1, 8], [1, 8], [1]]
        tables.settle()


def test_more_subjects_than_the_limit_are_refused(tmp_path: Path) -> None:
    """The limit is an error, not a cut-off answer."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number}") for number in range(5))])
    tables.settle()
    assert len(reader(tables).multi_last("S", ["s.>"], limit=5).messages) == 5
    with pytest.raises(TooMany):
        reader(tables).multi_last("S", ["s.>"], limit=4)


def test_a_damaged_payload_is_never_served(tmp_path: Path) -> None:
    """A row whose checksum does not match names its file."""
    history, tables = History(), Tables(tmp_path)
    row = history.publish("s.1", b"payload")
    tables.commit([history.create(), row._replace(crc=row.crc ^ 1)])
    tables.settle()
    with pytest.raises(DamagedData, match="checksum of sequence 1") as caught:
        reader(tables).multi_last("S", ["s.>"])
    assert Path(caught.value.file).exists()


def test_the_standalone_function_reads_a_data_folder(tmp_path: Path) -> None:
    """The function that Spark workers call gives the same messages, also after the tables moved on."""
    history, tables, data = History(), Tables(tmp_path), DataLocation(str(tmp_path))
    tables.commit([history.create(), history.publish("s.1", b"one", headers=b"NATS/1.0\r\nA: b\r\n\r\n")])
    tables.settle()
    first = multi_last(data, "S", ["s.>"], up_to_seq=1)
    assert (first[0].data, first[0].headers) == (b"one", b"NATS/1.0\r\nA: b\r\n\r\n")
    tables.commit([history.publish("s.1", b"two")])
    assert multi_last(data, "S", ["s.>"])[0].data == b"two"
    assert multi_last(data, "S", ["s.>"], up_to_seq=1) == first
    assert multi_last(data, "S", ["s.>"], up_to_ts_ns=history.now_ns) == first
