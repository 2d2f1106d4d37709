"""SQL by DuckDB shows what JetStream shows: settled or not, now and at a point."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from deltalake import DeltaTable

from delta_store.config.stream_config import StreamConfig
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.sql.duck_session import DuckSession
from delta_store.sql.sql_engine import SqlQuery
from delta_store.sql.sql_errors import SqlError, SqlErrorKind
from delta_store.sql.sql_limits import SqlLimits
from delta_store.streams.event_rows import event_row, stream_data
from delta_store.values.read_errors import DamagedData, FileGone, NoSuchStream, PastHorizon
from delta_store.values.records import Kind, Row
from tests.clocks import FixedClock
from tests.sql_answers import column_of, engine_on, error_of, rows_of
from tests.stores import Both, flip, flip_payload
from tests.tables import START_NS, History, Tables, live_sequences

SECOND = 1_000_000_000
END = 1 << 61


def half_settled(data: Path) -> tuple[Tables, History]:
    """A stream half settled, half in the journal, with evictions that reach over the border."""
    history, tables = History(per_subject=2), Tables(data)
    tables.commit([history.create(), *(history.publish(f"s.{number % 3}") for number in range(8))])
    tables.settle()
    block = b"NATS/1.0\r\nA: b \r\nA:c\r\nX-Y:\r\n\r\n"
    tables.commit(
        [
            history.publish("s.1", b'{"a": 1}', headers=block, msg_id="one"),
            history.publish("s.2", b"\xff"),
            history.remove([8], "delete", erase=True),
        ]
    )
    return tables, history


def test_a_view_has_the_live_messages(tmp_path: Path) -> None:
    """The rows are those that the gateway would serve, before and after they are settled."""
    tables, history = half_settled(tmp_path)
    engine = engine_on(tmp_path)
    for step in (lambda: None, tables.settle, tables.apply_limits, tables.truncate, tables.compact):
        step()
        assert column_of(engine, "SELECT seq FROM S ORDER BY seq") == sorted(history.live)
    assert column_of(engine, "SELECT count(*) FROM s") == [len(history.live)]


def test_the_columns_of_a_view(tmp_path: Path) -> None:
    """Payload as bytes, text and JSON where it is; headers by name; times in UTC; sizes as in max_bytes."""
    half_settled(tmp_path)
    engine = engine_on(tmp_path)
    [row] = rows_of(engine, "SELECT * FROM S WHERE seq = 9")
    assert dict(row["headers"]) == {"A": ["b", "c"], "X-Y": [""]}
    assert (row["subject"], row["tokens"], row["msg_id"]) == ("s.1", ["s", "1"], "one")
    assert (row["data"], row["text"], row["json"]) == (b'{"a": 1}', '{"a": 1}', '{"a": 1}')
    assert row["time"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["ts_ns"] // 1000)
    assert row["size"] == 30 + 3 + 8 + 4 + 30
    [row] = rows_of(engine, "SELECT text, json, headers, json->>'a' AS a FROM S WHERE seq = 10")
    assert list(row.values()) == [None, None, None, None]
    assert column_of(engine, "SELECT json->>'a' FROM S WHERE seq = 9") == ["1"]


@pytest.mark.parametrize(
    ("call", "parameters", "point"),
    [
        ("as_of('S', 5)", (), 5),
        ("as_of(S, '5')", (), 5),
        ("as_of('S', 2 + 3)", (), 5),
        ("as_of('S', ?)", (5,), 5),
        ("as_of(point := $at, stream := $stream)", {"stream": "S", "at": "5"}, 5),
        ("as_of('S', '2h')", (), 0),
        ("as_of('S', '59m ago')", (), 10),
        ("as_of('S', ?)", (datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC),), 0),
        ("as_of('S', TIMESTAMPTZ '2025-06-15 15:06:40+00')", (), 0),
        ("as_of('S', DATE '2025-06-16')", (), 10),
        ("as_of('S', 1000)", (), 10),
    ],
)
def test_points_are_written_the_same_everywhere(tmp_path: Path, call: str, parameters: Any, point: int) -> None:
    """A sequence, a time, an age, a timestamp, an expression, a parameter: each names a state."""
    _, history = half_settled(tmp_path)
    engine = engine_on(tmp_path, clock=FixedClock(START_NS + 3600 * SECOND))
    with engine.query(f"SELECT seq FROM {call} ORDER BY seq", parameters) as query:
        query.run()
        found = [seq for batch in query.batches() for seq in batch.column(0).to_pylist()]
    assert found == sorted(live_sequences(history.rows, END if point == 10 else point))


def test_the_last_message_of_each_subject(tmp_path: Path) -> None:
    """``multi_last`` answers as Direct Get does, by one filter or several, at a point or now."""
    half_settled(tmp_path)
    engine, past = engine_on(tmp_path), reader(tmp_path)
    for filters in (["s.>"], ["s.1"], ["s.0", "s.2"], ["*.2", "s.1"], ["none"]):
        for point in (None, 3, 6, 8, 9):
            asked = [message.seq for message in past.multi_last("S", filters, up_to_seq=point).messages]
            given = filters[0] if len(filters) == 1 else filters
            points = [] if point is None else [point]
            places = ", ".join("?" * len(points))
            call = f"multi_last('S', ?{', ' if points else ''}{places})"
            assert column_of(engine, f"SELECT seq FROM {call} ORDER BY seq", given, *points) == asked


def test_what_changed_between_two_points(tmp_path: Path) -> None:
    """``diff`` has a row for each subject whose last message is another one."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(subject) for subject in ("s.a", "s.b", "s.c"))])
    tables.settle()
    tables.commit([history.publish("s.b"), history.remove([1], "delete", erase=False), history.publish("s.d")])
    engine = engine_on(tmp_path)
    found = rows_of(engine, "SELECT subject, change, seq_before, seq_after FROM diff('S', 3, 5) ORDER BY subject")
    assert [tuple(row.values()) for row in found] == [
        ("s.a", "removed", 1, None),
        ("s.b", "changed", 2, 4),
        ("s.d", "added", None, 5),
    ]
    assert rows_of(engine, "SELECT * FROM diff('S', 5, 5)") == []
    assert column_of(engine, "SELECT text_after FROM diff('S', 3, 5) WHERE subject = 's.b'") == ["S/4"]


def test_sequence_time_and_version_of_what_was_settled(tmp_path: Path) -> None:
    """``versions`` says which version of ``messages`` settled which sequences, and from when they are."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create()])
    for _ in range(3):
        tables.commit([history.publish("s.1"), history.publish("s.2")])
        tables.settle()
    found = rows_of(engine_on(tmp_path), "SELECT * FROM versions('S') ORDER BY version")
    assert [(row["first_seq"], row["last_seq"]) for row in found] == [(1, 2), (3, 4), (5, 6)]
    assert [row["version"] for row in found] == sorted({row["version"] for row in found})
    assert all(row["first_time"] <= row["last_time"] <= row["committed"] for row in found)


def test_a_bucket_has_values_and_a_history(tmp_path: Path) -> None:
    """Deleted keys have no value, a limit's marker is a purge; the history has what the bucket keeps."""
    history, tables = History(stream="KV_CONFIG", per_subject=2), Tables(tmp_path)
    marker = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n"
    tables.commit([history.create(), *(history.publish(f"$KV.CONFIG.k{number % 2}") for number in range(5))])
    tables.settle()
    tables.commit(
        [
            history.publish("$KV.CONFIG.k0", b" ", headers=b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"),
            history.publish("$KV.CONFIG.old", b" ", headers=marker),
        ]
    )
    engine = engine_on(tmp_path)
    values = rows_of(engine, "SELECT key, text, revision FROM kv_CONFIG ORDER BY key")
    assert [tuple(row.values()) for row in values] == [("k1", "KV_CONFIG/4", 4)]
    found = rows_of(engine, "SELECT key, revision, operation FROM KV_config_HISTORY ORDER BY revision")
    assert [tuple(row.values()) for row in found] == [
        ("k1", 2, "PUT"),
        ("k1", 4, "PUT"),
        ("k0", 5, "PUT"),
        ("k0", 6, "DEL"),
        ("old", 7, "PURGE"),
    ]
    assert "kv_CONFIG" in column_of(engine, "SHOW TABLES")


def test_streams_and_consumers_are_reported(tmp_path: Path) -> None:
    """``silt_streams`` has the state that stream info has; ``silt_consumers`` the consumers that exist."""
    tables, history = half_settled(tmp_path)
    empty = History(stream="EMPTY")
    tables.commit([empty.create(), consumer(history, "kept"), consumer(history, "gone"), consumer(history, "kept")])
    tables.settle()
    tables.commit([consumer(history, "gone", Kind.CONSUMER_DELETE)])
    engine = engine_on(tmp_path)
    report = {row["name"]: row for row in rows_of(engine, "SELECT * FROM silt_streams")}
    row = report["S"]
    assert (row["messages"], row["first_seq"], row["last_seq"], row["settled_seq"], row["subjects"]) == (
        5,
        4,
        10,
        10,
        3,
    )
    assert row["bytes"] == sum(column_of(engine, "SELECT size FROM S"))
    assert (report["EMPTY"]["messages"], report["EMPTY"]["last_seq"], report["EMPTY"]["first_time"]) == (0, 0, None)
    assert rows_of(engine, "SELECT stream, name, config FROM silt_consumers") == [
        {"stream": "S", "name": "kept", "config": '{"durable_name":"kept"}'}
    ]
    assert column_of(engine, "SHOW TABLES") == ["EMPTY", "S", "silt_consumers", "silt_streams"]


def consumer(history: History, name: str, kind: Kind = Kind.CONSUMER) -> Row:
    """An event of a consumer of the stream."""
    history.event_no += 1
    history.now_ns += 1
    data = b'{"config":{"durable_name":"%s"},"created_ns":%d}' % (name.encode(), history.now_ns)
    place = (history.seq, history.event_no, history.first_seq)
    return event_row(
        kind, (history.stream, history.stream_id), place=place, ts_ns=history.now_ns, data=data, subject=name
    )


def test_what_is_too_old_is_not_shown(tmp_path: Path) -> None:
    """``max_age`` counts when the statement runs, recorded or not; not where single messages have their own age."""
    for name, ttl, shown in (("AGED", False, [2]), ("TTL", True, [1, 2])):
        history, tables = History(stream=name), Tables(tmp_path / name)
        config = StreamConfig(name=name, subjects=("s.>",), max_age=10 * SECOND, allow_msg_ttl=ttl)
        history.event_no += 1
        created = history._event(Kind.STREAM, stream_data(config, history.stream_id))
        first = history.publish("s.1")
        history.now_ns += 5 * SECOND
        tables.commit([created, first, history.publish("s.1")])
        engine = engine_on(tmp_path / name, clock=FixedClock(history.now_ns + 9 * SECOND))
        assert column_of(engine, f"SELECT seq FROM {name} ORDER BY seq") == shown
        assert column_of(engine, f"SELECT seq FROM as_of('{name}', 2) ORDER BY seq") == [1, 2]


def test_a_statement_reads_the_files_that_it_asks_for(tmp_path: Path) -> None:
    """A subject, a prefix, a range of sequences or times leaves out the files that can't hold them."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create()])
    for number in range(12):
        tables.commit([history.publish(f"s.{number:02d}.{leaf}") for leaf in "ab"])
        tables.settle()
    engine = engine_on(tmp_path)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START_NS // 1000 - 1)
    for text, parameters, seqs, most in [
        ("S", (), list(range(1, 25)), 24),
        ("S WHERE subject = 's.03.a'", (), [7], 1),
        ("S x WHERE x.subject IN ('s.03.a', 's.05.b')", (), [7, 12], 2),
        ("S WHERE subject LIKE 's.03.%'", (), [7, 8], 2),
        ("S WHERE starts_with(subject, ?)", ("s.03.",), [7, 8], 2),
        ("S WHERE seq BETWEEN 3 AND 6 AND text <> ''", (), [3, 4, 5, 6], 4),
        ("S WHERE 23 <= seq", (), [23, 24], 2),
        ("S WHERE time < ?", (moment,), [], 0),
        ("S WHERE ts_ns <= ?", (START_NS + 41,), [1, 2, 3, 4], 4),
        ("multi_last('S', 's.03.*', 24)", (), [7, 8], 2),
        ("multi_last('S', ['s.03.>', 's.05.b'])", (), [7, 8, 12], 3),
        ("multi_last('S', '*.03.a')", (), [7], 24),
        ("multi_last('S', 's.>') WHERE subject = 's.03.a'", (), [7], 1),
        ("as_of('S', 24) WHERE subject ^@ 's.04'", (), [9, 10], 2),
        ("S WHERE subject = 's.03.a' OR seq = 1", (), [1, 7], 24),
        ("S AS t(seq) WHERE seq = 's.03.a'", (), ["s.03.a"], 24),
    ]:
        with engine.query(f"SELECT seq FROM {text} ORDER BY seq", parameters) as query:
            query.run()
            assert [seq for batch in query.batches() for seq in batch.column(0).to_pylist()] == seqs, text
            assert len(query.files) <= most, text


def test_pruning_never_brings_back_what_was_evicted(tmp_path: Path) -> None:
    """The row that evicts a message may lie in a file that the statement need not read."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.commit([history.create()])
    for _ in range(4):
        tables.commit([history.publish("s.1"), history.publish("s.2")])
        tables.settle()
    engine = engine_on(tmp_path)
    assert rows_of(engine, "SELECT seq FROM S WHERE seq <= 4") == []
    assert column_of(engine, "SELECT seq FROM as_of('S', 4) WHERE seq <= 4 ORDER BY seq") == [3, 4]
    assert column_of(engine, "SELECT seq FROM S WHERE seq = 8") == [8]


def test_one_statement_sees_one_state(tmp_path: Path) -> None:
    """What is stored, settled and truncated while an answer is read does not change it."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number % 5}") for number in range(40))])
    tables.settle(tables.rows[:21])
    with engine_on(tmp_path).query("SELECT a.seq, b.seq FROM S a JOIN as_of('S', 40) b USING (seq)") as query:
        query.run()
        tables.commit([history.publish("s.1")])
        tables.settle()
        tables.truncate()
        assert sum(batch.num_rows for batch in query.batches()) == 40


def test_a_stream_made_again_starts_anew(tmp_path: Path) -> None:
    """Nothing of the stream that had the name before is seen; a deleted stream has no view."""
    old, tables = History(), Tables(tmp_path)
    tables.commit([old.create(), old.publish("s.1"), old.publish("s.old")])
    tables.settle()
    old.event_no += 1
    tables.commit([old._event(Kind.STREAM_DELETE, b"{}")])
    engine = engine_on(tmp_path)
    assert "no view" in str(error_of(engine, "FROM S"))
    assert isinstance(error_of(engine, "FROM as_of('S', 1)"), NoSuchStream)
    new = History(stream_id=old.stream_id + 1_000_000, now_ns=old.now_ns + 1_000_000)
    tables.commit([new.create(), new.publish("s.1", b"new")])
    for _ in range(2):
        assert column_of(engine, "SELECT text FROM S") == ["new"]
        assert column_of(engine, "SELECT text FROM as_of('S', 1)") == ["new"]
        tables.settle()


def test_streams_that_may_not_be_read_do_not_exist(tmp_path: Path) -> None:
    """A statement can't tell a stream that its key does not open from one that there is not."""
    tables, _ = half_settled(tmp_path)
    other = History(stream="KV_OTHER")
    tables.commit([other.create(), other.publish("$KV.OTHER.k")])
    engine = engine_on(tmp_path)

    def asked(text: str) -> list[Any]:
        with engine.query(text, readable=lambda stream: stream == "S") as query:
            query.run()
            return [row for batch in query.batches() for row in batch.column(0).to_pylist()]

    assert asked("SELECT count(*) FROM S") == [5]
    assert asked("SELECT name FROM silt_streams") == ["S"]
    assert asked("SHOW TABLES") == ["S", "silt_consumers", "silt_streams"]
    for text in ("FROM KV_OTHER", "FROM kv_OTHER", "FROM kv_OTHER_history"):
        with pytest.raises(SqlError, match="no view"):
            asked(text)
    with pytest.raises(NoSuchStream):
        asked("FROM multi_last('KV_OTHER', '>')")


def test_names_are_found_whatever_their_case(tmp_path: Path) -> None:
    """SQL knows no case, NATS does: the exact name goes first, and two names may not meet in one statement."""
    upper, lower, tables = History(stream="Orders"), History(stream="orders"), Tables(tmp_path)
    tables.commit([upper.create(), lower.create(), upper.publish("s.1", b"upper"), lower.publish("s.1", b"lower")])
    engine = engine_on(tmp_path)
    assert column_of(engine, "SELECT text FROM Orders") == ["upper"]
    assert column_of(engine, "SELECT text FROM orders") == ["lower"]
    assert "no case" in str(error_of(engine, "SELECT * FROM orders, Orders"))


def test_damage_is_refused(tmp_path: Path) -> None:
    """Nothing past damage is read: neither a damaged log, nor a payload, nor settled rows without their journal."""
    both = Both(tmp_path / "log", by_delta_rs=False)
    flip(both.entry(1, "journal"))
    assert isinstance(error_of(engine_on(tmp_path / "log"), "SELECT count(*) FROM S"), DamagedData)
    both = Both(tmp_path / "payload", by_delta_rs=False)
    flip_payload(max((both.data / "journal").rglob("*.parquet")))
    assert isinstance(error_of(engine_on(tmp_path / "payload"), "SELECT * FROM S"), DamagedData)
    both = Both(tmp_path / "lost", by_delta_rs=False)
    for path in (both.data / "journal").rglob("*"):
        if path.is_file():
            path.unlink()
    assert isinstance(error_of(engine_on(tmp_path / "lost"), "SELECT count(*) FROM S"), DamagedData)


def test_a_damaged_settled_file_is_named(tmp_path: Path) -> None:
    """A file that is no Parquet any more is damage, with its name."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), history.publish("s.1")])
    tables.settle()
    tables.truncate()
    [file] = [path for path in (tmp_path / "messages").rglob("*.parquet") if "events" not in str(path)]
    file.write_bytes(file.read_bytes()[:-20] + b"\0" * 20)
    error = error_of(engine_on(tmp_path), "SELECT * FROM S")
    assert isinstance(error, DamagedData)
    assert error.file == str(file)


def test_a_file_that_is_gone_is_a_reason_to_begin_anew(tmp_path: Path) -> None:
    """Vacuum took the files of the pinned version: the statement is answered by the next; a lost file is an error."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish("s.1") for _ in range(6))])
    tables.settle(tables.rows[:3])
    tables.settle()
    tables.truncate()
    engine = engine_on(tmp_path)
    for path in (tmp_path / "messages").rglob("*.parquet"):
        if "events" not in str(path):
            path.unlink()
    assert isinstance(error_of(engine, "SELECT * FROM S"), FileGone)


def test_a_past_that_is_no_longer_kept_is_past_the_horizon(tmp_path: Path) -> None:
    """The error of the other readers, never a wrong answer."""
    history, tables = History(per_subject=1), Tables(tmp_path, by_delta_rs=True)
    tables.commit([history.create(), history.publish("s.1"), history.publish("s.1")])
    tables.settle(tables.rows[:2])
    tables.settle()
    tables.apply_limits()
    DeltaTable(str(tmp_path / "messages")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    error = error_of(engine_on(tmp_path), "SELECT * FROM as_of('S', 1)")
    assert isinstance(error, PastHorizon)


def test_many_removed_ranges(tmp_path: Path) -> None:
    """More ranges than a statement has room for are a relation of their own."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish("s.1") for _ in range(200))])
    tables.commit([history.remove([seq], "delete", erase=False) for seq in range(2, 200, 3)])
    engine = engine_on(tmp_path)
    for _ in range(2):
        assert column_of(engine, "SELECT seq FROM S ORDER BY seq") == sorted(history.live)
        tables.settle()


def test_odd_names_of_folders(tmp_path: Path) -> None:
    """Where DuckDB would take a path for a pattern, Arrow reads the files."""
    folder = tmp_path / "a[b]c*?'d"
    tables, history = half_settled(folder)
    tables.settle()
    engine = engine_on(folder)
    assert column_of(engine, "SELECT seq FROM S WHERE seq > 0 ORDER BY seq") == sorted(history.live)


def test_limits(tmp_path: Path) -> None:
    """Time, rows, and the length of the text are bounded, each with its own error; the engine answers afterwards."""
    half_settled(tmp_path)
    for text, limits, kind in [
        ("SELECT count(*) FROM range(10000000) a, range(1000000) b", SqlLimits(seconds=0.3), SqlErrorKind.TIMEOUT),
        ("SELECT * FROM range(100)", SqlLimits(rows=99), SqlErrorKind.ROWS),
        ("SELECT 'x' -- " + "y" * 100, SqlLimits(text_bytes=100), SqlErrorKind.INVALID),
        (
            "SELECT a FROM range(9000000) t(a) ORDER BY hash(a)",
            SqlLimits(memory_bytes=20 << 20, temp_bytes=1 << 20),
            SqlErrorKind.MEMORY,
        ),
    ]:
        error = error_of(engine_on(tmp_path, limits=limits), text)
        assert isinstance(error, SqlError), text
        assert error.kind is kind, (text, error)
    assert column_of(engine_on(tmp_path, limits=SqlLimits(rows=100)), "SELECT count(*) FROM S") == [5]


def test_a_statement_is_cancelled_from_another_thread(tmp_path: Path) -> None:
    """Whoever runs it gets an error; a query that was cancelled before it ran does not run."""
    half_settled(tmp_path)
    engine = engine_on(tmp_path)
    with engine.query("SELECT count(*) FROM range(10000000) a, range(1000000) b") as query:
        watch = Thread(target=cancel_once_it_runs, args=(query,))
        watch.start()
        with pytest.raises(SqlError) as caught:
            query.run()
    watch.join()
    assert caught.value.kind is SqlErrorKind.CANCELLED
    with engine.query("SELECT 1") as query:
        query.cancel()
        with pytest.raises(SqlError):
            query.run()


def cancel_once_it_runs(query: SqlQuery) -> None:
    """Cancel again and again: an interrupt before DuckDB has begun is lost."""
    while not query.is_over:
        query.cancel()
        time.sleep(0.05)


def test_a_statement_uses_the_session_of_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it reads files of the same streams: never beside files of streams that it does not name."""
    tables, history = half_settled(tmp_path)
    other = History(stream="s")
    tables.commit([other.create(), other.publish("s.1", b"other")])
    tables.settle()
    used = sessions_of(monkeypatch)
    engine = engine_on(tmp_path)
    for text, found, fits in [
        ("SELECT count(*) FROM S", [5], False),
        ("SELECT seq FROM S WHERE seq = 9", [9], True),
        ("SELECT headers['X-Y'][1] FROM S AS one WHERE seq = 9", [""], True),
        ("SELECT subject FROM multi_last('S', 's.1')", ["s.1"], True),
        ("SELECT text FROM s", ["other"], False),
        ("SELECT count(*) FROM S", [5], False),
        ("SELECT count(*) FROM as_of('S', 9) JOIN as_of('s', 1) USING (subject)", [1], False),
        ("SELECT count(*) FROM S", [5], False),
        ("SELECT count(*) FROM S, range(3)", [15], True),
    ]:
        assert column_of(engine, text) == found, text
        assert (used[-1] is used[-2]) is fits if len(used) > 1 else not fits, text
    for _ in range(2):
        tables.commit([history.publish("s.1")])
        assert column_of(engine, "SELECT seq FROM S ORDER BY seq") == sorted(history.live)
        assert used[-1] is used[-2]


def test_a_session_whose_statement_failed_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one of which rows were left over, or that was cancelled, or that is for other limits."""
    half_settled(tmp_path)
    used = sessions_of(monkeypatch)
    engine = engine_on(tmp_path)
    good = "SELECT count(*) FROM S"
    assert column_of(engine, good) == [5]
    assert error_of(engine, "SELECT text::INTEGER FROM S") is not None
    assert column_of(engine, good) == column_of(engine, good) == [5]
    with engine.query(good) as query:
        query.run()
    with engine.query(good) as query:
        query.run()
        list(query.batches())
        query.cancel()
    with engine.query(good, limits=SqlLimits(rows=3)) as query:
        query.run()
        list(query.batches())
    first, failed, third, fourth, left, cancelled, limited = used
    assert first is failed
    assert third is fourth is left
    assert len({id(one) for one in (failed, third, cancelled, limited)}) == 4


def sessions_of(monkeypatch: pytest.MonkeyPatch) -> list[DuckSession]:
    """The sessions that answered, in turn, as the list grows."""
    used: list[DuckSession] = []
    answer = DuckSession.answer

    def noted(session: DuckSession, text: str, parameters: Any) -> Any:
        used.append(session)
        return answer(session, text, parameters)

    monkeypatch.setattr(DuckSession, "answer", noted)
    return used


def reader(data: Path) -> PointInTime:
    """The reader of the past that NATS and REST use."""
    return PointInTime(SettledTable(str(data / "messages")), JournalTail(str(data / "journal")))
