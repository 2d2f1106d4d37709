"""What a power cut tore at the end of ``messages`` is passed over and set aside; what the journal relies on never."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from delta_store.log.log_repair import ASIDE, repair_messages
from delta_store.log.torn_log import relied_version
from delta_store.reading.settled import SettledTable
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import CommitNote, Op, Watermark
from tests.groups import group, open_journal, settled_to

ROWS = 10


def _settle(table: Path, batch: int) -> None:
    """One append, as the settle job makes it: ten messages of ORDERS."""
    first = batch * ROWS + 1
    rows = pa.table(
        {
            "seq": range(first, first + ROWS),
            "stream": ["ORDERS"] * ROWS,
            "subject_partition": [f"orders.{batch}"] * ROWS,
        }
    )
    note = CommitNote(Op.APPEND, {"ORDERS": Watermark(1, first + ROWS - 1, 0, 1)}, batch + 1)
    metadata = CommitProperties(custom_metadata={"userMetadata": note.as_json()})
    write_deltalake(
        table, rows, mode="append", partition_by=["stream", "subject_partition"], commit_properties=metadata
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six versions of ``messages``, and a journal that has forgotten what version 2 holds."""
    for batch in range(6):
        _settle(tmp_path / "messages", batch)
    journal = open_journal(tmp_path / "journal")
    journal.commit(group(1, 30))
    journal.commit(group(31, 30))
    assert journal.truncate(settled_to(30), relies_on=2) == 1
    return tmp_path


def _entry(data: Path, version: int) -> Path:
    return data / "messages" / "_delta_log" / f"{version:020d}.json"


def _data_file(data: Path, batch: int) -> Path:
    [path] = (data / "messages" / "stream=ORDERS" / f"subject_partition=orders.{batch}").glob("*.parquet")
    return path


def _tear(data: Path, what: str) -> None:
    """Leave version 4 as a power cut may."""
    if what == "empty entry":
        os.truncate(_entry(data, 4), 0)
    elif what == "cut entry":
        os.truncate(_entry(data, 4), 200)
    elif what == "missing entry":
        _entry(data, 4).unlink()
    elif what == "empty file":
        os.truncate(_data_file(data, 4), 0)
    else:
        size = _data_file(data, 4).stat().st_size
        os.truncate(_data_file(data, 4), size - 8)
        os.truncate(_data_file(data, 4), size)


@pytest.mark.parametrize("what", ["empty entry", "cut entry", "missing entry", "empty file", "zeros in a file"])
def test_a_torn_end_is_passed_over_then_settled_again(what: str, data: Path) -> None:
    """Readers show version 3 while 4 is torn, whatever is behind it, and the new 4 and 5 once they are there."""
    _tear(data, what)
    reader = SettledTable(str(data / "messages"))
    assert reader.refresh().version == 3
    assert reader.watermarks["ORDERS"].seq == 40
    assert reader.refresh().version == 3
    repaired = repair_messages(data, now_ns=7)
    assert (repaired.version, repaired.durable_version) == (3, 3)
    assert (data / ASIDE / "messages-7").is_dir()
    assert reader.refresh().version == 3
    for batch in (4, 5):
        _settle(data / "messages", batch)
    assert reader.refresh().version == 5
    assert SettledTable(str(data / "messages")).refresh().files.keys() == reader.snapshot.files.keys()
    assert repair_messages(data, now_ns=8).aside == []


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_journal_relies_on_is_never_passed_over(version: int, data: Path) -> None:
    """An entry that is empty or gone there is damage, for readers and for the repair: nothing is moved."""
    os.truncate(_entry(data, version), 0)
    with pytest.raises(DamagedData, match=f"{version:020d}"):
        SettledTable(str(data / "messages")).refresh()
    for later in range(version, 6):
        _entry(data, later).unlink()
    with pytest.raises(DamagedData, match="the journal relies on version 2"):
        SettledTable(str(data / "messages")).refresh()
    with pytest.raises(DamagedData, match="the journal relies on version 2"):
        repair_messages(data, now_ns=7)
    assert not (data / ASIDE).exists()


def test_a_torn_checkpoint_is_made_up_for(data: Path) -> None:
    """Readers open the table by its entries; the repair takes the checkpoint and the pointer to it away."""
    DeltaTable(data / "messages").create_checkpoint()
    [checkpoint] = (data / "messages" / "_delta_log").glob("*.checkpoint.parquet")
    os.truncate(checkpoint, checkpoint.stat().st_size // 2)
    files = SettledTable(str(data / "messages")).refresh().files
    assert {file.path for file in files.values()} == {
        str(_data_file(data, batch).relative_to(data / "messages")) for batch in range(6)
    }
    assert sorted(repair_messages(data, now_ns=7).aside) == [
        "00000000000000000005.checkpoint.parquet",
        "_last_checkpoint",
    ]
    assert DeltaTable(data / "messages").version() == 5


@pytest.mark.parametrize("torn", ["empty log folder", "empty first entry"])
def test_a_table_that_was_just_being_made_is_made_anew(torn: str, tmp_path: Path) -> None:
    """The journal has forgotten nothing yet: readers show no table, and the repair makes room for a new one."""
    open_journal(tmp_path / "journal").commit(group(1))
    log = tmp_path / "messages" / "_delta_log"
    log.mkdir(parents=True)
    if torn == "empty first entry":
        (log / f"{0:020d}.json").touch()
    reader = SettledTable(str(tmp_path / "messages"))
    assert reader.refresh().version == -1
    assert repair_messages(tmp_path, now_ns=7).aside == ["messages"]
    assert not (tmp_path / "messages").exists()
    _settle(tmp_path / "messages", 0)
    assert reader.refresh().version == 0


def test_checksum_files_of_earlier_versions_are_deleted(data: Path) -> None:
    """Hadoop's local file system fails on an empty one, wherever in the table it lies."""
    for path in (_entry(data, 3), _data_file(data, 2)):
        path.with_name(f".{path.name}.crc").touch()
    assert repair_messages(data, now_ns=7).aside == []
    assert not list((data / "messages").rglob(".*.crc"))


def test_what_the_journal_relies_on_outlives_its_log(tmp_path: Path) -> None:
    """The record is in the truncation's entry and in checkpoints; a truncation without one makes it unknown."""
    folder = tmp_path / "journal"
    assert relied_version(tmp_path) is None
    journal = open_journal(folder)
    assert relied_version(tmp_path) == -1
    journal.commit(group(1, 3))
    journal.checkpoint()
    assert relied_version(tmp_path) == -1
    journal.commit(group(4, 3))
    journal.truncate(settled_to(3), relies_on=12)
    assert relied_version(tmp_path) == 12
    journal.checkpoint()
    journal.commit(group(7, 3))
    assert relied_version(tmp_path) == 12
    journal.truncate(settled_to(6))
    assert relied_version(tmp_path) is None
