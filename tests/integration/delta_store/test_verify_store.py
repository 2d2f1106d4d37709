"""What ``silt verify`` finds in a store that was damaged: each damage by its file, and nothing in a whole store."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli.app import app
from delta_store.findings import Severity
from delta_store.verify_store import verify_store
from tests.stores import ALL, Both, Harm, empty, flip_payload, halve, lose_adds, missing, nul


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
    here = Both(tmp_path)
    here.tables.compact()
    path = here.entry(version, table)
    harm(path)
    assert (version, harm) == (0, missing) or ("damage", name_in(tmp_path, path)) in found(tmp_path)
    assert not verify_store(tmp_path).is_whole


def test_a_damaged_newest_entry_is_found(tmp_path: Path) -> None:
    """Also the last ones: the journal's file that no entry names any more tells of the entry that is gone."""
    here = Both(tmp_path)
    last = here.entry(here.journal.version, "journal")
    halve(last)
    assert found(tmp_path) == [("damage", name_in(tmp_path, last))]
    halve(here.entry(1))
    assert ("damage", name_in(tmp_path, here.entry(1))) in found(tmp_path)


@pytest.mark.parametrize("harm", [empty, halve, nul, flip_payload, missing])
@pytest.mark.parametrize("table", ["journal", "messages"])
def test_a_damaged_data_file_is_found(tmp_path: Path, table: str, harm: Harm) -> None:
    """Every byte is read and held against a checksum."""
    path = Both(tmp_path).file(table)
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


def test_tables_that_do_not_belong_together_are_found(tmp_path: Path) -> None:
    """Half of an entry's files, one table lost, or brought back from another day."""
    here = Both(tmp_path / "adds")
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
    here.journal.truncate({"S": here.tables.marks["S"].position})
    here.entry(1).unlink()
    whats = [one.what for one in verify_store(here.data).findings if one.severity is Severity.DAMAGE]
    assert whats == [
        "the journal has stream 'S' from sequence 701 (event 1) on, messages has up to sequence 400 (event 1)"
    ]


def test_the_command_names_files_and_ends_with_a_status(tmp_path: Path) -> None:
    """Beside the store's lock: 0 when all is whole, 1 with a row for each damage, 1 where there is no store."""
    here = Both(tmp_path / "store")
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
