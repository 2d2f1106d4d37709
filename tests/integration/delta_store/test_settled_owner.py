"""The owner of ``messages`` on a real folder: append, rewrite, check, checkpoint, vacuum; all engines read it alike."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_name
from delta_store.entries.log_entry import entry_name
from delta_store.entries.staged_file import Writing
from delta_store.log.delta_log import path_of
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settled.settled_upkeep import Vacuumed
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.journal_errors import Fenced, JournalPoisoned
from delta_store.values.read_errors import DamagedData, PastHorizon
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import Claim, CommitNote, Op
from tests.groups import STREAM_ID, SteppedClock, event, message
from tests.staged import append_note, open_owner, settle, stage
from tests.tables import History, Tables

_HORIZON = 1_000.0


@pytest.fixture(autouse=True)
def checkpoints_are_due_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After five commits."""
    monkeypatch.setattr("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 5)


def _open(folder: Path, clock: SteppedClock | None = None) -> SettledOwner:
    return open_owner(LocalStorage(folder), clock or SteppedClock(), horizon_seconds=_HORIZON)


def _checkpoint(owner: SettledOwner) -> int:
    """Write a checkpoint however small the log is that it replaces."""
    owner._upkeep._checkpoint_bytes = 0
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 1):
        version = owner.upkeep()
    assert version == owner.snapshot.version
    return version


def _entry(folder: Path, version: int) -> Path:
    return folder / LOG_FOLDER / entry_name(version)


def _data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if path.parent.name != LOG_FOLDER)


def _age(folder: Path, clock: SteppedClock) -> None:
    """Date all files by the test's clock."""
    for path in folder.rglob("*"):
        os.utime(path, ns=(clock.now_ns(), clock.now_ns()))


def _seqs(table: object) -> list[int]:
    return sorted(pa.table(table)["seq"].to_pylist())


def _read_by_all(folder: Path) -> list[int]:
    """Return the table's sequences as every engine and our own reader find them."""
    delta = DeltaTable(str(folder))
    dataset = delta.to_pyarrow_dataset()
    found = [
        _seqs(delta.to_pyarrow_table(columns=["seq"])),
        _seqs(dataset.to_table(columns=["seq"], filter=pc.field("ts_ns") > 0)),
        _seqs(duckdb.connect().from_arrow(dataset).filter("size > 0 and kind = 'message'").to_arrow_table()),
        pl.read_delta(str(folder)).filter(pl.col("stream") == "ORDERS")["seq"].sort().to_list(),
        _own(folder),
    ]
    assert all(one == found[0] for one in found)
    return found[0]


def _own(folder: Path, version: int | None = None) -> list[int]:
    settled = SettledTable(str(folder))
    snapshot = settled.refresh() if version is None else settled.log.at(version)
    columns = settled.columns(snapshot.files.values(), ["seq"])
    return [] if columns is None else sorted(columns["seq"].to_pylist())


def test_every_engine_reads_what_was_committed(tmp_path: Path) -> None:
    """After appends, limits, compaction, a checkpoint, another owner and a vacuum: the same rows for all of them."""
    clock = SteppedClock()
    owner = _open(tmp_path, clock)
    for seq in range(1, 13):
        assert settle(owner, [message(seq)]) == seq + 1
        clock.seconds += 1
    assert _read_by_all(tmp_path) == list(range(1, 13))
    assert _checkpoint(owner) == 13
    assert owner.upkeep() is None
    dead = {path for path, file in owner.snapshot.files.items() if file.seq[1] <= 3}
    owner.rewrite(Op.LIMITS, dead, deleted=3)
    assert _read_by_all(tmp_path) == list(range(4, 13))
    small = {path for path, file in owner.snapshot.files.items() if file.subject_partition == "orders.4"}
    merged = stage(owner.storage, [message(4), message(11)], Writing(owner.epoch, owner.note.batch))
    owner.rewrite(Op.COMPACT, small, merged)
    assert _read_by_all(tmp_path) == list(range(4, 13))
    assert len(owner.snapshot.files) == 8
    for seq in range(13, 20):
        settle(owner, [message(seq)])
    assert _checkpoint(owner) == 22
    _age(tmp_path, clock)
    successor = _open(tmp_path, clock)
    assert (successor.snapshot.files, successor.note.batch) == (owner.snapshot.files, 19)
    settle(successor, [message(20)])
    clock.seconds += _HORIZON
    assert successor.vacuum() == Vacuumed(5, 13, 0)
    assert len(_data_files(tmp_path)) == len(successor.snapshot.files)
    assert _read_by_all(tmp_path) == list(range(4, 21))
    assert _own(tmp_path) == list(range(4, 21))


def test_the_past_is_kept_for_the_horizon(tmp_path: Path) -> None:
    """Each version that was the newest within the horizon can be read whole, by us and by delta-rs; older ones go."""
    clock = SteppedClock()
    owner = _open(tmp_path, clock)
    rows: dict[int, list[int]] = {}
    made: dict[int, float] = {}
    for seq in range(1, 41):
        clock.seconds += 100
        version = settle(owner, [message(seq)])
        if seq % 4 == 0:
            oldest = min(owner.snapshot.files.values(), key=lambda file: file.seq)
            version = owner.rewrite(Op.LIMITS, {oldest.path}, deleted=1)
        rows[version] = sorted(file.seq[0] for file in owner.snapshot.files.values())
        made[version] = clock.seconds
        owner.upkeep()
        _age(tmp_path, clock)
        owner.vacuum()
    newest_old = max(version for version, at in made.items() if at <= clock.seconds - _HORIZON)
    kept = [version for version in rows if version >= newest_old]
    assert len(kept) == 11
    for version in kept:
        assert _own(tmp_path, version) == rows[version]
        assert _seqs(DeltaTable(str(tmp_path), version=version).to_pyarrow_table(columns=["seq"])) == rows[version]
    assert len(list((tmp_path / LOG_FOLDER).glob("*.json"))) < 40
    settled = SettledTable(str(tmp_path))
    settled.refresh()
    assert settled.append_version_for("ORDERS", STREAM_ID, 40) > newest_old
    with pytest.raises(PastHorizon):
        settled.append_version_for("ORDERS", STREAM_ID, 2)


def test_a_batch_is_appended_once(tmp_path: Path) -> None:
    """And nothing is published that a reader would refuse: the owner goes on afterwards."""
    owner = _open(tmp_path)
    settle(owner, [message(1), message(2)])
    again, rows = owner.note, [message(3)]
    files = stage(owner.storage, rows, Writing(owner.epoch, 2))
    note = append_note(owner, rows)
    assert note.claim is not None
    wrong: list[Callable[[], int]] = [
        lambda: owner.append(files, again),
        lambda: owner.append(files, CommitNote(Op.APPEND, note.watermarks, 4, note.claim)),
        lambda: owner.append(files, CommitNote(Op.LIMITS, note.watermarks, 2, note.claim)),
        lambda: owner.append(files, CommitNote(Op.APPEND, note.watermarks, 2, Claim(9, {"ORDERS": 1}))),
        lambda: owner.append(files, CommitNote(Op.APPEND, note.watermarks, 2, Claim(3, {"ORDERS": 2}))),
        lambda: owner.append(files, CommitNote(Op.APPEND, {}, 2, note.claim)),
        lambda: owner.append(files, CommitNote(Op.APPEND, append_note(owner, [message(9)]).watermarks, 2, note.claim)),
        lambda: owner.append([*files, *files], note),
        lambda: owner.rewrite(Op.COMPACT, set(owner.snapshot.files)),
        lambda: owner.rewrite(Op.LIMITS, set(owner.snapshot.files), deleted=1),
        lambda: owner.rewrite(Op.LIMITS, {"nowhere"}, deleted=1),
        lambda: owner.rewrite(Op.APPEND, set(owner.snapshot.files), deleted=2),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            call()
    assert owner.append(files, note) == 3
    assert _own(tmp_path) == [1, 2, 3]


def test_no_altered_byte_of_an_entry_is_read(tmp_path: Path) -> None:
    """By the owner or by a reader: a flipped bit anywhere, a cut anywhere, NUL bytes anywhere."""
    owner = _open(tmp_path)
    settle(owner, [message(1), message(2)])
    settled = SettledTable(str(tmp_path))
    path = _entry(tmp_path, 2)
    raw = path.read_bytes()
    for at in range(len(raw)):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << at % 8
        for bad in (bytes(flipped), raw[:at], raw[:at] + b"\0" * (len(raw) - at)):
            with pytest.raises(DamagedData, match=r"2\.json"):
                settled.log._log._table.entry(2, bad, file="2.json")
    path.write_bytes(raw[:-1])
    with pytest.raises(DamagedData, match=path.name):
        _open(tmp_path)


@pytest.mark.parametrize("harm", [b"", b"PAR1 not", None])
def test_a_damaged_checkpoint_is_made_up_for(tmp_path: Path, harm: bytes | None) -> None:
    """By the one before it and the entries since, for readers and for the next owner, who replaces it."""
    owner = _open(tmp_path)
    for seq in range(1, 12):
        settle(owner, [message(seq)])
        if seq in {5, 10}:
            _checkpoint(owner)
    checkpoint = max((tmp_path / LOG_FOLDER).glob("*.checkpoint.parquet"))
    body = checkpoint.read_bytes()
    changed = bytearray(body)
    changed[len(body) // 2] ^= 1
    checkpoint.write_bytes(bytes(changed) if harm is None else harm)
    assert _own(tmp_path) == list(range(1, 12))
    successor = _open(tmp_path)
    assert successor.snapshot.files == owner.snapshot.files
    assert not checkpoint.exists()
    assert (tmp_path / LOG_FOLDER / checkpoint_name(successor.snapshot.version)).exists()
    settle(successor, [message(12)])
    assert _read_by_all(tmp_path) == list(range(1, 13))


@pytest.mark.parametrize("harm", ["none", "halved", "gone"])
def test_live_files_are_listed_apart(tmp_path: Path, harm: str) -> None:
    """Where others have left the table: readers go by the newest list, or without it; other engines pass it over."""
    owner, log = _open(tmp_path), tmp_path / LOG_FOLDER
    files = {}
    for seq in range(1, 31):
        owner._upkeep._checkpoint_bytes = 1 << 30
        settle(owner, [message(seq)])
        files[owner.snapshot.version] = owner.snapshot.files
        if seq % 4 == 0:
            owner.rewrite(Op.LIMITS, {min(owner.snapshot.files)}, deleted=1)
            files[owner.snapshot.version] = owner.snapshot.files
        owner.upkeep()
    lists = sorted(log.glob("*.files.parquet"))
    assert len(lists) >= 3
    assert not list(log.glob("*.checkpoint.parquet"))
    for path in lists if harm != "none" else ():
        path.write_bytes(path.read_bytes()[:-9]) if harm == "halved" else path.unlink()
    for version, theirs in files.items():
        assert SettledTable(str(tmp_path)).log.at(version).files == theirs
    reader = SettledTable(str(tmp_path))
    with mock.patch.object(LocalStorage, "sizes", side_effect=None if harm != "none" else AssertionError("listed")):
        assert (harm != "none") or reader.refresh().files == owner.snapshot.files
    assert _read_by_all(tmp_path) == _own(tmp_path)
    assert _open(tmp_path).snapshot.files == owner.snapshot.files


def test_lists_go_with_the_log_that_they_are_of(tmp_path: Path) -> None:
    """When no version within the horizon needs them."""
    clock = SteppedClock()
    owner, log = _open(tmp_path, clock), tmp_path / LOG_FOLDER
    for seq in range(1, 21):
        settle(owner, [message(seq)])
        if seq % 4 == 0:
            owner.rewrite(Op.LIMITS, {min(owner.snapshot.files)}, deleted=1)
        if seq % 10 == 0:
            _checkpoint(owner)
    before = sorted(log.glob("*.files.parquet"))
    clock.seconds += _HORIZON + 1
    settle(owner, [message(21)])
    _checkpoint(owner)
    owner.vacuum()
    assert [path for path in before if path.exists()] == before[-1:]


def test_a_log_behind_its_pointer_is_refused(tmp_path: Path) -> None:
    """A log that lost its end must not be gone on with."""
    owner = _open(tmp_path)
    for seq in range(1, 7):
        settle(owner, [message(seq)])
    version = _checkpoint(owner)
    pointer = (tmp_path / path_of(LAST_CHECKPOINT)).read_bytes()
    for path in (_entry(tmp_path, version), tmp_path / path_of(checkpoint_name(version))):
        path.unlink()
    assert b'"silt.crc"' in pointer
    with pytest.raises(DamagedData, match="ends at version"):
        _open(tmp_path)


def test_only_what_no_version_needs_is_vacuumed(tmp_path: Path) -> None:
    """Files of fenced owners at once, own staged ones after an hour, others' once they are older than the horizon."""
    clock = SteppedClock()
    old = _open(tmp_path, clock)
    settle(old, [message(1)])
    orphan = stage(old.storage, [message(2)], Writing(old.epoch, 2))
    owner = _open(tmp_path, clock)
    staged = stage(owner.storage, [message(2)], Writing(owner.epoch, 2))
    folder = (tmp_path / staged[0].path).parent
    others = [folder / "part-0-of-spark.parquet", folder / ".part-1.parquet.tmp"]
    for path in (*others, tmp_path / "notes.txt", folder / "notes.txt"):
        path.write_bytes(b"x")
    _age(tmp_path, clock)
    assert owner.vacuum() == Vacuumed(1, 0, 0)
    assert not (tmp_path / orphan[0].path).exists()
    with pytest.raises(Fenced):
        old.append(orphan, append_note(old, [message(2)]))
    clock.seconds += 3_590
    assert owner.vacuum().files == 0
    owner.append(staged, append_note(owner, [message(2)]))
    late = stage(owner.storage, [message(3)], Writing(owner.epoch, 3))
    os.utime(tmp_path / late[0].path, ns=(clock.now_ns(), clock.now_ns()))
    clock.seconds += 20
    assert owner.vacuum().files == 2
    clock.seconds += 3_600
    assert owner.vacuum().files == 1
    assert {path.name for path in tmp_path.rglob("notes.txt")} == {"notes.txt"}
    assert _read_by_all(tmp_path) == [1, 2]


def test_a_checkpoint_is_due_when_it_is_no_larger_than_the_log(tmp_path: Path) -> None:
    """So all checkpoints together take no more space than the entries, and an opening reads little of the log."""
    owner, log = _open(tmp_path), tmp_path / LOG_FOLDER
    for seq in range(1, 101):
        settle(owner, [message(seq)])
        owner.upkeep()
    sizes = [sum(path.stat().st_size for path in log.glob(kind)) for kind in ("*.checkpoint.parquet", "*.json")]
    assert sizes[0] <= sizes[1]
    assert 3 <= len(list(log.glob("*.checkpoint.parquet"))) <= 20


def test_a_past_read_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions there are, and however many are committed meanwhile; nor does opening the table."""
    owner, listed = _open(tmp_path), []
    for seq in range(1, 9):
        settle(owner, [message(seq)])
    _checkpoint(owner)
    sizes = LocalStorage.sizes
    monkeypatch.setattr(LocalStorage, "sizes", lambda self, name: listed.append(name) or sizes(self, name))
    settled = SettledTable(str(tmp_path))
    for seq in range(9, 30):
        settle(owner, [message(seq)])
        settled.refresh()
        for earlier in (seq, max(9, seq - 5)):
            version = settled.append_version_for("ORDERS", STREAM_ID, earlier)
            assert settled.log.at(version).watermarks["ORDERS"].seq == earlier
    assert SettledOwner.open(owner.storage, clock=SteppedClock(), horizon_seconds=1).snapshot == owner.snapshot
    assert listed == []


def test_a_checkpoint_in_parts_is_refused(tmp_path: Path) -> None:
    """Where nothing else makes up for the entries before it; the error says why."""
    owner = _open(tmp_path)
    for seq in range(1, 7):
        settle(owner, [message(seq)])
    version, log = _checkpoint(owner), tmp_path / LOG_FOLDER
    (log / checkpoint_name(version)).rename(log / f"{version:020d}.checkpoint.0000000001.0000000001.parquet")
    (log / LAST_CHECKPOINT).unlink()
    _entry(tmp_path, 2).unlink()
    with pytest.raises(DamagedData, match="in parts"):
        _open(tmp_path)


def test_properties_follow_the_settings(tmp_path: Path) -> None:
    """Upkeep puts them right; the table is the same one, and nothing is changed where nothing differs."""
    _open(tmp_path)
    before = DeltaTable(str(tmp_path)).metadata()
    owner = open_owner(LocalStorage(tmp_path), SteppedClock(), horizon_seconds=77)
    owner.vacuum()
    delta = DeltaTable(str(tmp_path))
    assert delta.metadata().configuration["delta.logRetentionDuration"] == "interval 77 seconds"
    assert (delta.metadata().id, delta.metadata().partition_columns) == (before.id, ["stream", "subject_partition"])
    assert (delta.protocol().min_reader_version, delta.protocol().min_writer_version) == (1, 2)
    open_owner(LocalStorage(tmp_path), SteppedClock(), horizon_seconds=77).vacuum()
    changes = [b"metaData" in _entry(tmp_path, version).read_bytes() for version in range(5)]
    assert changes == [True, False, False, True, False]


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_an_older_table_is_gone_on_with(tmp_path: Path, *, claims: bool, checkpointed: bool) -> None:
    """One that another engine has written so far: read, claimed, appended to, compacted, checkpointed, vacuumed."""
    tables, history, clock = (
        Tables(tmp_path, claims=claims, by_delta_rs=True),
        History(stream="ORDERS", max_msgs=8),
        SteppedClock(),
    )
    folder = tmp_path / "messages"
    for number in range(12):
        tables.commit([history.create()] if number == 0 else [history.publish(f"s.{number % 2}")])
        tables.settle()
    tables.apply_limits()
    if checkpointed:
        DeltaTable(str(folder)).create_checkpoint()
    live = [row.seq for row in history.rows if row.kind == "message" and row.seq in history.live]
    before = SettledTable(str(folder)).refresh()
    owner = _open(folder, clock)
    assert owner.epoch == 1
    assert dict(owner.note.watermarks) == tables.marks
    assert owner.snapshot.files == before.files
    assert owner.note.batch == 12
    settle(owner, [history.publish("s.9")])
    compacted = {path for path, file in owner.snapshot.files.items() if file.subject_partition == "s.0"}
    kept = [row for row in history.rows if row.subject == "s.0" and row.seq in live]
    owner.rewrite(Op.COMPACT, compacted, stage(owner.storage, kept, Writing(1, 1)))
    _checkpoint(owner)
    again = _open(folder, clock)
    assert again.epoch == 2
    events = {file.path for file in again.snapshot.files.values() if file.events_only}
    assert len(events) == 1
    assert sorted(set(_own(folder)) - {0}) == [*live, 12]
    assert _seqs(DeltaTable(str(folder)).to_pyarrow_table(columns=["seq"])) == _own(folder)


def test_a_table_of_newer_features_is_refused(tmp_path: Path) -> None:
    """Silt would write it wrongly; the error names what it needs."""
    _open(tmp_path)
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(DamagedData, match="writer"):
        _open(tmp_path)


def test_another_programs_commit_stops_the_owner(tmp_path: Path) -> None:
    """What it did is not known to this one; the next owner reads it."""
    owner = _open(tmp_path)
    settle(owner, [message(1), message(8)])
    settle(owner, [message(15)])
    DeltaTable(str(tmp_path)).optimize.compact()
    with pytest.raises(Fenced):
        settle(owner, [message(16)])
    with pytest.raises(JournalPoisoned):
        settle(owner, [message(16)])
    successor = _open(tmp_path)
    settle(successor, [message(16), event(16, 1)])
    assert _own(tmp_path) == [1, 8, 15, 16, 16]
