"""``heads`` and ``removed`` behind ``messages``: what engines find by them is what a replay of the rows finds."""

import random
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable

from conf.clock import SystemClock
from conf.limits import HEADS_FILES_MAX, REMOVED_KEPT_SECONDS
from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.followed_heads import FollowedHeads
from delta_store.heads.head_tables import HeadTables
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import PastPoint
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import StorageFull
from delta_store.values.records import Kind, Row
from tests import plain_views
from tests.groups import SteppedClock
from tests.staged import open_owner
from tests.tables import History, Tables, live_after, live_before, live_sequences

HORIZON = 86_400.0


class Followed:
    """Tables with heads and removed behind them."""

    def __init__(self, data: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.applied = 0
        dice = self.dice
        self.history = History(per_subject=dice.choice([-1, 1, 2]), max_msgs=dice.choice([-1, 20]))
        self.other = History(stream="OTHER")
        self.tables = Tables(data)
        self.tables.rows += [self.history.create(), self.other.create()]
        self.heads = self.opened()

    def opened(self) -> HeadTables:
        """The tables as a settle job that has just been started opens them."""
        heads = HeadTables.open(self.tables.owner, clock=SystemClock())
        heads.follow()
        return heads

    def step(self) -> None:
        """Settle some rows, and now and then clean up."""
        dice, tables = self.dice, self.tables
        tables.rows += [
            row for _ in range(dice.randrange(1, 9)) for row in (self.history.step(dice), self.other.step(dice))
        ]
        before = set(tables.owner.snapshot.files)
        tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 5)])
        self.heads.follow([path for path in tables.owner.snapshot.files if path not in before])
        if dice.random() < 0.4:
            tables.apply_limits()
            self.applied = tables.owner.snapshot.version
            self.heads.maintain(applied=self.applied)
        if dice.random() < 0.2:
            tables.compact()
        if dice.random() < 0.2:
            self.heads = self.opened()

    def settled(self, stream: str = "S") -> list[Row]:
        """The settled rows of a stream."""
        mark = self.tables.marks.get(stream)
        mine = [row for row in self.tables.rows if row.stream == stream]
        return [row for row in mine if mark is not None and row.position <= mark.position]


def test_a_live_view_in_polars_is_one_state(tmp_path: Path) -> None:
    """A batch that is settled, and cleaned up after, while its tables are opened changes nothing in it."""
    followed = Followed(tmp_path, 1)
    followed.history, tables = History(stream="S", per_subject=1), followed.tables
    tables.rows[:] = [followed.history.create(), *(followed.history.publish(f"s.{number}") for number in range(3))]

    def settle() -> None:
        before = set(tables.owner.snapshot.files)
        tables.settle()
        followed.heads.follow([path for path in tables.owner.snapshot.files if path not in before])

    settle()
    names: dict[str, Any] = {}
    exec(view_text.polars_text(str(tmp_path)), names)
    opened = names["table"]

    def table(name: str, version: int | None = None) -> Any:
        if name == "messages":
            tables.rows.append(followed.history.publish("s.1"))
            settle()
            tables.apply_limits()
            followed.heads.maintain(applied=tables.owner.snapshot.version)
        return opened(name, version)

    names["table"] = table
    assert sorted(names["live"]("S").collect()["seq"]) == [1, 2, 3]
    names["table"] = opened
    assert sorted(names["live"]("S").collect()["seq"]) == [1, 3, 4]


def _check_live(here: Followed, data: Path) -> None:
    truth = {name: live_sequences(here.settled(name)) for name in ("S", "OTHER")}
    for found in plain_views.live(data):
        assert found == {name: live for name, live in truth.items() if live}


def _check_past(here: Followed, data: Path, *, points: int) -> None:
    """Check a stream's state after some of its sequences and before some times, as far as they are held."""
    rows, heads = here.settled(), read_heads(str(data / "messages"))
    for seq in here.dice.sample(range(1, here.tables.marks["S"].seq + 1), points):
        head = head_rows.holding(heads, "S", seq=seq)
        assert head is not None, seq
        for state in plain_views.past(data, PastPoint(head, seq, None)):
            assert state == live_sequences(rows, seq), seq
    for number in here.dice.sample(range(2, len(rows) + 1), points):
        (_, seq, event_no), first = rows[number - 1].position, rows[:number]
        behind_ns = max((row.ts_ns + 1 for row in first if row.seq == seq and row.kind != Kind.MESSAGE), default=0)
        head = head_rows.holding(heads, "S", seq=seq, event_no=event_no)
        assert head is not None, number
        for state in plain_views.past(data, PastPoint(head, seq, behind_ns)):
            assert state == live_after(rows, number), number
    for row in here.dice.sample(rows, points):
        ts_ns = row.ts_ns + here.dice.choice([0, 1])
        head = head_rows.holding(heads, "S", before_ns=ts_ns)
        assert head is not None, ts_ns
        for state in plain_views.past(data, PastPoint(head, None, ts_ns)):
            assert state == live_before(rows, ts_ns), ts_ns


@pytest.mark.parametrize("seed", range(2))
def test_every_state_is_plain_sql(tmp_path: Path, seed: int) -> None:
    """Live now and then, and in the end after sequences and before times: two engines find what a replay finds."""
    here = Followed(tmp_path, seed)
    for number in range(10):
        here.step()
        if number % 4 == seed:
            _check_live(here, tmp_path)
    _check_past(here, tmp_path, points=5)


def test_a_writer_that_ends_anywhere_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at each of its writes in turn, the next one takes up what is missing: nothing twice, nothing missed."""

    class Killed(BaseException):
        """The end of the process."""

    writes, limit = 0, 1 << 30

    def counted(name: str) -> None:
        real = getattr(LocalStorage, name)

        def write(self: LocalStorage, *given: object, **named: object) -> object:
            nonlocal writes
            if not self.uri.endswith("messages"):
                writes += 1
                if writes > limit:
                    raise Killed
            return real(self, *given, **named)

        monkeypatch.setattr(LocalStorage, name, write)

    counted("write")
    counted("publish")
    here = Followed(tmp_path, 5)
    here.history.per_subject = 1
    for cut in range(7):
        writes, limit = 0, cut
        with suppress(Killed):
            here.step()
            here.heads.maintain(applied=here.applied)
        limit = 1 << 30
        here.heads = here.opened()
        _check_live(here, tmp_path)
    assert writes > 0
    removed = DeltaTable(str(tmp_path / "removed")).to_pyarrow_table().to_pylist()
    keys = [(one["stream_id"], one["low"], one["at_seq"]) for one in removed]
    assert len(keys) == len(set(keys)) > 0
    _check_past(here, tmp_path, points=4)


def test_an_existing_store_gets_them(tmp_path: Path) -> None:
    """Of a table that was cleaned up before, the present is shown at once, and the past from there on."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.rows += [history.create(), *(history.publish(f"s.{number % 3}") for number in range(12))]
    tables.rows.append(history.remove([11], "delete", erase=True))
    tables.settle()
    tables.apply_limits()
    heads = HeadTables.open(tables.owner, clock=SystemClock())
    heads.follow()
    assert plain_views.live(tmp_path) == 2 * [{"S": live_sequences(tables.rows)}]
    assert head_rows.holding(read_heads(str(tmp_path / "messages")), "S", seq=12) is None
    tables.rows += [history.publish("s.0"), history.publish("s.9")]
    tables.settle()
    heads.follow()
    head = head_rows.holding(read_heads(str(tmp_path / "messages")), "S", seq=13)
    assert head is not None
    assert plain_views.past(tmp_path, PastPoint(head, 13, None)) == 2 * [live_sequences(tables.rows, 13)]


def test_rows_go_when_cleanup_has_deleted_what_they_name(tmp_path: Path) -> None:
    """Evictions follow after a while; what erases stays as long as a past version may have the messages."""
    clock = SteppedClock()
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.rows.append(history.create())
    heads = HeadTables.open(tables.owner, clock=clock)
    for number in range(24):
        tables.rows.append(history.publish(f"s.{number % 3}"))
        tables.settle()
        heads.follow()
        heads.maintain(applied=0)
    tables.rows += [history.remove([24], "delete", erase=True), history.publish("s.7")]
    tables.settle()
    heads.follow()
    removed = DeltaTable(str(tmp_path / "removed"))
    removed.update_incremental()
    assert removed.to_pyarrow_table().num_rows == 22
    assert len(removed.file_uris()) <= HEADS_FILES_MAX + 1
    tables.apply_limits()
    heads.follow()
    heads.maintain(applied=tables.owner.snapshot.version)
    for wait, rows in ((0, 22), (REMOVED_KEPT_SECONDS, 1), (HORIZON, 0)):
        clock.seconds += wait
        heads.maintain(applied=tables.owner.snapshot.version)
        removed.update_incremental()
        assert removed.to_pyarrow_table().num_rows == rows
        assert plain_views.live(tmp_path) == 2 * [{"S": live_sequences(tables.rows)}]


def test_tables_of_another_messages_are_made_anew(tmp_path: Path) -> None:
    """When ``messages`` has lost its end, or is that of a backup, nothing that it has not is shown."""
    here = Followed(tmp_path, 1)
    for _ in range(3):
        here.step()
    shutil.copytree(tmp_path / "messages", tmp_path / "backup")
    for _ in range(3):
        here.step()
    shutil.rmtree(tmp_path / "messages")
    (tmp_path / "backup").rename(tmp_path / "messages")
    owner = open_owner(LocalStorage(tmp_path / "messages"), SystemClock())
    HeadTables.open(owner, clock=SystemClock()).follow()
    truth = {
        name: live_sequences([row for row in here.settled(name) if row.position <= mark.position])
        for name, mark in owner.note.watermarks.items()
    }
    for found in plain_views.live(tmp_path):
        assert found == {name: live for name, live in truth.items() if live}


def test_a_failure_stops_no_batch_and_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full disk the tables stay behind, also in maintenance; with room again they catch up at the next batch."""
    history, tables = History(per_subject=1), Tables(tmp_path)
    tables.rows.append(history.create())
    heads = FollowedHeads(tables.owner, clock=SystemClock())
    write, full = LocalStorage.write, Event()

    def written(self: LocalStorage, blob: Blob) -> None:
        if full.is_set() and not self.uri.endswith("messages"):
            raise StorageFull(blob.name, "no space left")
        write(self, blob)

    monkeypatch.setattr(LocalStorage, "write", written)
    shown = []
    for is_full in (False, True, True, False, False):
        (full.set if is_full else full.clear)()
        tables.rows += [history.publish(f"s.{number % 2}") for number in range(3)]
        before = set(tables.owner.snapshot.files)
        tables.settle()
        heads.settled([path for path in tables.owner.snapshot.files if path not in before])
        heads.maintain()
        heads.vacuum()
        shown.append(head_rows.newest(head_rows.as_table(read_heads(str(tmp_path / "messages"))))["S"].watermark)
    assert shown == [3, 3, 3, 12, 15]
    assert plain_views.live(tmp_path) == 2 * [{"S": live_sequences(tables.rows)}]
