"""What ``silt verify`` finds in a store that was damaged: each damage by its file, and nothing in a whole store."""

import json
from pathlib import Path
from unittest import mock

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.app import app
from api.gateway.gateway_main import main as gateway_main
from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_stores import claim_stores
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.settings import load_settings
from delta_store.checking import verify_store as whole_store
from delta_store.entries.findings import Report, Severity
from delta_store.log.log_repair import repair_messages
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.store_lock import settle_lock, store_lock
from delta_store.values.records import Position
from tests.staged import open_owner, settle
from tests.stores import ALL, Both, Harm, empty, flip_payload, halve, lose_adds, missing, nul


def verify_store(data: Path) -> Report:
    """Verify the tables in a folder."""
    return whole_store.verify_store(DataLocation(str(data)))


def found(data: Path) -> list[tuple[str, str]]:
    """Severity and file of each finding."""
    return [(one.severity.value, one.file) for one in verify_store(data).findings]


def name_in(data: Path, path: Path) -> str:
    """A file as findings name it."""
    return str(path.relative_to(data))


def test_a_whole_store_is_found_whole(tmp_path: Path) -> None:
    """Checkpoints, compaction, truncation and a file that no entry names are no damage; what was read is counted."""
    here = Both(tmp_path)
    here.checkpoint()
    here.tables.compact()
    here.journal.truncate({"S": here.tables.marks["S"].position})
    (tmp_path / "journal" / f"{3:020d}-000001-000000000099.parquet").write_bytes(b"never committed")
    report = verify_store(tmp_path)
    assert report.is_whole
    assert [one.severity for one in report.findings] == [Severity.LEFT_OVER]
    assert [(one.table, one.files, one.rows) for one in report.seen] == [("journal", 1, 100), ("messages", 4, 701)]


# Spark's entries have no checksum of their own: a single bit may be one that nobody looks at.
ENTRIES = [
    *(("journal", 1, harm) for harm in ALL),
    *(("messages", 1, harm) for harm in (empty, halve, nul, missing)),
    *((table, 0, harm) for table in ("journal", "messages") for harm in (empty, missing)),
]


@pytest.mark.parametrize(("table", "version", "harm"), ENTRIES)
def test_a_damaged_log_entry_is_found(tmp_path: Path, table: str, version: int, harm: Harm) -> None:
    """Empty, cut, NUL-filled, altered or missing, first or in the middle."""
    here = Both(tmp_path, relied=table == "messages")
    here.tables.compact()
    path = here.entry(version, table)
    harm(path)
    assert (version, harm) == (0, missing) or ("damage", name_in(tmp_path, path)) in found(tmp_path)
    assert not verify_store(tmp_path).is_whole


@pytest.mark.parametrize("harm", ALL)
def test_every_bit_that_silt_settled_is_verified(tmp_path: Path, harm: Harm) -> None:
    """Log entries and data files have checksums over all of their bytes, whatever is in them."""
    here = Both(tmp_path / "store", relied=True, by_delta_rs=False)
    assert found(here.data) == []
    assert CliRunner().invoke(app, ["repair", "--data", str(here.data), "--yes"]).exit_code == 0
    for path in (here.entry(2), here.entry(3), here.file()):
        kept = path.read_bytes()
        harm(path)
        assert ("damage", name_in(here.data, path)) in found(here.data)
        path.write_bytes(kept)
    assert found(here.data) == []


@pytest.mark.parametrize("checkpointed", [True, False])
def test_what_the_journal_has_is_settled_again_by_the_owner(tmp_path: Path, *, checkpointed: bool) -> None:
    """A damaged end that the journal does not rely on: passed over by readers, set aside, and gone on behind it."""
    here = Both(tmp_path / "store", by_delta_rs=False)
    here.journal.truncate({}, relies_on=2)
    here.journal.truncate({"S": Position(here.tables.marks["S"].stream_id, 400, 1)}, relies_on=2)
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 1 if checkpointed else 9):
        assert here.tables.owner.upkeep() == (3 if checkpointed else None)
    nul(here.entry(3))
    assert here.settled.refresh().watermarks["S"].seq == 400
    assert repair_messages(here.data, now_ns=7).version == 2
    assert verify_store(here.data).is_whole
    owner = open_owner(LocalStorage(here.data / "messages"), SystemClock())
    rows = [row for row in here.tables.rows if 400 < row.seq <= 700]
    settle(owner, rows)
    assert here.settled.refresh().watermarks["S"].seq == 700
    assert verify_store(here.data).is_whole


def test_a_damaged_newest_entry_is_found(tmp_path: Path) -> None:
    """Also the last ones: the journal's file that no entry names any more tells of the entry that is gone."""
    here = Both(tmp_path)
    last = here.entry(here.journal.reader.version, "journal")
    halve(last)
    assert found(tmp_path) == [("damage", name_in(tmp_path, last))]
    here = Both(tmp_path / "relied", relied=True)
    halve(here.entry(1))
    assert ("damage", name_in(here.data, here.entry(1))) in found(here.data)


@pytest.mark.parametrize("harm", [empty, halve, nul, flip_payload, missing])
@pytest.mark.parametrize("table", ["journal", "messages"])
def test_a_damaged_data_file_is_found(tmp_path: Path, table: str, harm: Harm) -> None:
    """Every byte is read and held against a checksum."""
    path = Both(tmp_path, relied=table == "messages").file(table)
    harm(path)
    assert ("damage", name_in(tmp_path, path)) in found(tmp_path)


@pytest.mark.parametrize("harm", [empty, halve, missing])
@pytest.mark.parametrize("table", ["journal", "messages"])
def test_a_damaged_checkpoint_can_be_repaired(tmp_path: Path, table: str, harm: Harm) -> None:
    """The entries before it are there, so nothing is lost; one that is gone is as good as never made."""
    Both(tmp_path).checkpoint()
    [path] = (tmp_path / table / "_delta_log").glob("*.checkpoint.parquet")
    harm(path)
    outcome = dict(reversed(pair) for pair in found(tmp_path))
    if harm is missing and table == "messages":
        return
    assert outcome.get(name_in(tmp_path, path), "repairable") == "repairable"
    assert harm is missing or name_in(tmp_path, path) in outcome


@pytest.mark.parametrize("harm", [empty, halve])
def test_a_damaged_list_of_files_can_be_repaired(tmp_path: Path, harm: Harm) -> None:
    """Nothing rests on it: readers go by the checkpoint, or the log."""
    here = Both(tmp_path)
    here.tables.compact()
    with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 1):
        here.tables.owner.upkeep()
    [path] = (tmp_path / "messages" / "_delta_log").glob("*.files.parquet")
    harm(path)
    assert found(tmp_path) == [("repairable", name_in(tmp_path, path))]
    assert mend(tmp_path).exit_code == 0
    assert verify_store(tmp_path).is_whole
    assert last_seq(tmp_path) == 800


def test_tables_that_do_not_belong_together_are_found(tmp_path: Path) -> None:
    """Half of an entry's files, one table lost, or brought back from another day."""
    here = Both(tmp_path / "adds", relied=True)
    lose_adds(here.entry(0))
    assert ("damage", "messages/_delta_log/00000000000000000000.json") in found(here.data)
    here = Both(tmp_path / "journal")
    (here.data / "journal").rename(tmp_path / "elsewhere")
    [lost] = verify_store(here.data).findings
    assert (lost.file, lost.advice) == (
        "journal",
        "bring it back from a backup, or go on without it: silt repair --accept-lost-journal",
    )
    here = Both(tmp_path / "old")
    here.journal.truncate({"S": here.tables.marks["S"].position})  # by a version that did not say what it relies on
    here.entry(1).unlink()
    whats = [one.what for one in verify_store(here.data).findings if one.severity is Severity.DAMAGE]
    assert whats == [
        "the journal has stream 'S' from sequence 701 (event 1) on, messages has up to sequence 400 (event 1)"
    ]


def test_the_command_names_files_and_ends_with_a_status(tmp_path: Path) -> None:
    """Beside the store's lock: 0 when all is whole, 1 with a row for each damage, 1 where there is no store."""
    here = Both(tmp_path / "store", relied=True)
    whole = CliRunner().invoke(app, ["verify", "--data", str(here.data)])
    assert (whole.exit_code, "nothing is damaged" in whole.stderr) == (0, True)
    flip_payload(here.file())
    damaged = CliRunner().invoke(app, ["verify", "--data", str(here.data), "--output", "json"])
    [row] = json.loads(damaged.stdout)
    assert damaged.exit_code == 1
    assert row.keys() == {"severity", "table", "file", "found", "what to do"}
    assert row["file"].startswith("messages/")
    none = CliRunner().invoke(app, ["verify", "--data", str(tmp_path / "none")])
    assert (none.exit_code, "holds no tables" in none.stderr) == (1, True)


def last_seq(data: Path) -> int:
    """What a gateway that opens the store begins behind."""
    options = GatewayOptions("", "", DataLocation(str(data)), "", api_over_leaf=False)
    return claim_stores(options, load_settings()).catalog.streams["S"].index.last_seq


def mend(data: Path, *more: str) -> Result:
    """Repair by the command."""
    return CliRunner().invoke(app, ["repair", "--data", str(data), "--yes", *more])


@pytest.mark.parametrize("harm", [empty, halve, lose_adds])
def test_a_torn_end_of_messages_is_set_aside(tmp_path: Path, harm: Harm) -> None:
    """The journal has its rows: verify says that it can be repaired, repair does it, and all messages are there."""
    here = Both(tmp_path)
    harm(here.entry(1))
    assert ("repairable", "messages/_delta_log/00000000000000000001.json") in found(tmp_path)
    asked = CliRunner().invoke(app, ["repair", "--data", str(tmp_path)], input="n\n")
    assert asked.exit_code == 1
    assert here.entry(1).exists()
    done = mend(tmp_path)
    assert done.exit_code == 0, done.output
    assert "set aside 00000000000000000001.json in set-aside (whole up to version 0" in done.stdout
    assert [path.name for path in (tmp_path / "set-aside").rglob("*.json")] == [here.entry(1).name]
    assert here.settled.refresh().watermarks["S"].seq == 400
    assert last_seq(tmp_path) == 800


def test_damaged_checkpoints_are_made_anew(tmp_path: Path) -> None:
    """The journal's by writing one, that of ``messages`` by setting it aside."""
    here = Both(tmp_path)
    here.checkpoint()
    for path in tmp_path.rglob("*.checkpoint.parquet"):
        halve(path)
    assert {severity for severity, _ in found(tmp_path)} == {"repairable"}
    done = mend(tmp_path)
    assert done.exit_code == 0, done.output
    assert "journal: write a new checkpoint" in done.stdout
    assert verify_store(tmp_path).is_whole
    assert last_seq(tmp_path) == 800


def test_what_can_not_be_repaired_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage that something rests on is named with what to do, nothing is touched, and the status says so."""
    here = Both(tmp_path, relied=True)
    halve(here.entry(1))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "lock" not in path.name}
    assert gateway_main(["--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("; run: silt verify\n")
    refused = mend(tmp_path)
    assert refused.exit_code == 1
    assert "nothing that can be repaired safely" in refused.stdout
    assert "backup" in refused.stdout
    assert all(path.read_bytes() == body for path, body in before.items())


def test_a_lost_journal_is_begun_anew_when_told_so(tmp_path: Path) -> None:
    """And only then; what was settled is served again."""
    Both(tmp_path)
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    assert mend(tmp_path).exit_code == 1
    assert mend(tmp_path, "--accept-lost-journal").exit_code == 0
    assert last_seq(tmp_path) == 700


def test_repair_takes_the_locks(tmp_path: Path) -> None:
    """With a gateway or a settle job on the folder it does nothing and ends with status 3."""
    Both(tmp_path)
    for lock in (store_lock(tmp_path), settle_lock(tmp_path)):
        with lock:
            assert mend(tmp_path).exit_code == 3
