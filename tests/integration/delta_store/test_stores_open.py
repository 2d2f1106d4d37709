"""A catalog rebuilt from the tables is the catalog that wrote them."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.entries import journal_file
from delta_store.index.matching import iter_matching, last_by_subject, subjects_matching
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.payloads import Payloads
from delta_store.reading.settled import SettledTable
from delta_store.stores.opening_progress import OpeningAbandoned, OpeningProgress
from delta_store.stores.stores_open import open_stores
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import DamagedData
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide
from tests.tables import START_NS, Tables


class Store:
    """A gateway's decisions, committed into tables step by step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.catalog = Catalog()
        self.tables = Tables(folder)
        self.group = Group()
        self.now_ns = START_NS
        self.config = StreamConfig(
            name="S",
            subjects=("s.>",),
            max_msgs_per_subject=self.dice.choice([-1, 1, 3]),
            max_msgs=self.dice.choice([-1, 40]),
            max_age=self.dice.choice([0, 400]),
            duplicate_window=self.dice.choice([1, 100, 10_000]),
            allow_msg_ttl=self.dice.random() < 0.5,
            allow_rollup_hdrs=True,
            first_seq=self.dice.choice([0, 1, 70]),
        )
        counting = StreamConfig(name="C", subjects=("c.*",), allow_msg_counter=True, max_msgs_per_subject=2)
        self.catalog.create(counting, now_ns=self.now_ns, rows=self.group.rows)
        self.catalog.create(self.config, now_ns=self.now_ns, rows=self.group.rows)
        self.catalog.create(StreamConfig(name="T", subjects=("t",)), now_ns=self.now_ns, rows=self.group.rows)

    def step(self) -> None:
        """One operation at random, mostly a handful of messages."""
        self.now_ns += self.dice.randrange(1, 30)
        chance, rows = self.dice.random(), self.group.rows
        state = self.catalog.streams["S"]
        if chance < 0.1 and state.index.msgs:
            live = list(iter_matching(state.index, None, 0))
            self.catalog.remove("S", self.dice.choice(live), now_ns=self.now_ns, rows=rows)
        elif chance < 0.13:
            self.catalog.purge("S", subject="s.1", keep=self.dice.randrange(3), now_ns=self.now_ns, rows=rows)
        elif chance < 0.15:
            self.catalog.purge("S", now_ns=self.now_ns, rows=rows)
        elif chance < 0.17:
            self.catalog.delete("T", now_ns=self.now_ns, rows=rows)
            self.catalog.create(StreamConfig(name="T", subjects=("t",)), now_ns=self.now_ns + 1, rows=rows)
        else:
            self.publish(self.dice.randrange(1, 9))
        self.catalog.expire(now_ns=self.now_ns, rows=rows)

    def publish(self, count: int) -> None:
        """Messages with and without ids and headers."""
        messages = []
        for _ in range(count):
            chosen = self.dice.randrange(60)
            fields = f"Nats-Msg-Id: {chosen}\r\n" if chosen < 20 else ""
            fields += self.dice.choice(["", "", "", "Nats-TTL: 7s\r\n", "Nats-TTL: never\r\n", "Nats-Rollup: sub\r\n"])
            fields += "Nats-Rollup: all\r\n" if chosen == 59 else ""
            header = f"NATS/1.0\r\n{fields}\r\n".encode() if fields else b""
            subject = "t" if chosen % 7 == 0 else f"s.{chosen % 5}"
            messages.append(WireMessage(subject.encode(), b"", header, bytes(chosen)))
            if chosen % 6 == 0:
                increment = f"NATS/1.0\r\nNats-Incr: {chosen - 30}\r\n\r\n".encode()
                messages.append(WireMessage(f"c.{chosen % 4}".encode(), b"", increment, b""))
        decide(self.catalog, messages, self.now_ns, self.group)

    def commit(self) -> None:
        """Write what was decided since into the journal, and settle some of it."""
        rows = list(self.group.rows.rows())
        self.group = Group()
        if rows:
            self.tables.commit(rows)
        if self.dice.random() < 0.6:
            self.tables.settle(self.tables.rows[: len(self.tables.rows) - self.dice.randrange(6)])
        if self.dice.random() < 0.4 and self.tables.marks:
            self.tables.apply_limits()
        if self.dice.random() < 0.3 and self.tables.marks:
            self.tables.truncate()


def total(state: StreamState, subject: str) -> int:
    """What a counter is at."""
    if state.counters is None:
        return 0
    return state.counters.last(state.index, state.index.table.intern(subject)).value


def shown(state: StreamState) -> dict[str, Any]:
    """Everything that a client can see of a stream."""
    index = state.index
    live = index.live.sequences(0, index.last_seq)
    return {
        "config": state.config,
        "id": state.stream_id,
        "created": state.created_ns,
        "event_no": state.event_no,
        "last_msg_id": state.last_msg_id if live.size and live[-1] == index.last_seq else None,
        "bounds": (index.msgs, index.bytes, index.first_seq, index.last_seq, index.first_ts, index.last_ts),
        "subjects": subjects_matching(index),
        "messages": [
            (seq, index.subject_of(seq), index.live.ts_of(seq), index.live.size_of(seq)) for seq in live.tolist()
        ],
        "lasts": [last_by_subject(index, f"s.{number}") for number in range(5)],
        "clock": state.clock_ns,
        "expiry": state.ttls.next_ns(index, max_age=state.config.max_age) if state.ttls is not None else 0,
        "totals": [total(state, f"c.{number}") for number in range(4)],
    }


@pytest.mark.parametrize("seed", range(16))
def test_rebuilt_state_is_the_state_that_wrote_the_tables(tmp_path: Path, seed: int) -> None:
    """Bounds, subjects, messages, events and times come back, however far settling, limits and truncation are."""
    store = Store(tmp_path, seed)
    for _ in range(8):
        for _ in range(5):
            store.step()
        store.commit()
    settled, journal = SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal"))
    opened = open_stores(settled, journal)
    assert opened.catalog.streams.keys() == store.catalog.streams.keys()
    for name, state in store.catalog.streams.items():
        rebuilt = opened.catalog.streams[name]
        assert shown(rebuilt) == shown(state)
        rebuilt.dedup.forget(state.clock_ns)
        state.dedup.forget(state.clock_ns)
        live_ids = {key: kept for key, kept in state.dedup.items().items() if state.index.subject_of(kept[0])}
        assert live_ids.items() <= rebuilt.dedup.items().items() <= state.dedup.items().items()
    payloads = Payloads(settled, journal)
    live = [seq for seq, *_ in shown(store.catalog.streams["S"])["messages"]]
    found = payloads.fetch("S", store.catalog.streams["S"].stream_id, live)
    assert sorted(found) == live


def test_a_rebuilt_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    """The next message takes the next sequence and a later time, also when the last ones were removed."""
    store = Store(tmp_path, 1)
    store.publish(30)
    store.catalog.purge("S", now_ns=store.now_ns, rows=store.group.rows)
    store.dice.seed(5)
    store.commit()
    store.tables.settle()
    store.tables.apply_limits()
    opened = open_stores(SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal")))
    state, before = opened.catalog.streams["S"], store.catalog.streams["S"]
    assert (state.index.last_seq, state.position, state.index.msgs) == (before.index.last_seq, before.position, 0)
    group = Group()
    decide(opened.catalog, [WireMessage(b"s.9", b"", b"", b"x")], START_NS, group)
    assert group.rows.seq == [before.index.last_seq + 1]
    assert group.rows.ts_ns[0] > before.clock_ns


def test_opening_tells_how_far_it_is_and_can_be_given_up(tmp_path: Path) -> None:
    """In the end every row of both tables has been read; told before that nobody waits, it ends without a result."""
    store = Store(tmp_path, 2)
    store.publish(30)
    store.commit()
    store.tables.settle()
    store.publish(20)
    store.commit()
    settled, journal = SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal"))
    progress = OpeningProgress()
    assert "logs are being read" in str(progress)
    opened = open_stores(settled, journal, progress=progress)
    assert progress.rows_read == progress.rows_total == opened.settled.rows + opened.journal.rows > 50
    assert f"{progress.rows_read} of {progress.rows_total} rows read" in str(progress)
    progress.abandon()
    with pytest.raises(OpeningAbandoned):
        open_stores(settled, journal, progress=progress)


def test_nothing_at_all_opens_as_nothing(tmp_path: Path) -> None:
    """A folder without tables is an empty store."""
    opened = open_stores(SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal")))
    assert (opened.catalog.streams, opened.journal.version) == ({}, -1)


def test_a_gap_free_run_is_restored_in_bulk(tmp_path: Path) -> None:
    """Sequences, times and sizes of a settled run arrive unchanged in the index."""
    store = Store(tmp_path, 3)
    store.publish(100)
    store.commit()
    store.tables.settle()
    opened = open_stores(SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal")))
    theirs, ours = store.catalog.streams["S"].index, opened.catalog.streams["S"].index
    assert np.array_equal(ours.live.sequences(0, 1000), theirs.live.sequences(0, 1000))
    assert ours.bytes == theirs.bytes


def test_a_damaged_journal_row_stops_the_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the tail whose checksum does not match is never taken in."""
    store = Store(tmp_path, 1)
    store.publish(3)
    sums = journal_file.checksums(store.group.rows)
    with monkeypatch.context() as patched:
        patched.setattr(journal_file, "checksums", lambda _: [*sums[:-1], sums[-1] ^ 1])
        store.tables.commit(list(store.group.rows.rows()))
    with pytest.raises(DamagedData, match="checksum"):
        open_stores(SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal")))
