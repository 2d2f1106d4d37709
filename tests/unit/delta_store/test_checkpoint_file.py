"""A checkpoint costs little for the files that left the table: there may be tens of thousands."""

import sys
from pathlib import Path

from delta_store.entries import checkpoint_file
from delta_store.entries.checkpoint_file import snapshot_of
from delta_store.entries.log_entry import Removed, Stamp, file_name
from tests.groups import group, open_journal


def test_removed_files_are_written_by_columns(tmp_path: Path) -> None:
    """Every one is there again, and thousands of them take fewer calls than one each."""
    journal = open_journal(tmp_path / "journal")
    journal.commit(group(1))
    removed = tuple(Removed(file_name(at, Stamp(1, at)), 100 + at, 1_000 + at) for at in range(5_000))
    snapshot = snapshot_of(journal.reader.state)._replace(removed=removed)
    checkpoint_file.encode(snapshot._replace(removed=removed[:1]), "silt/0")  # imports what it needs
    calls = 0

    def count(_frame: object, what: str, _argument: object) -> None:
        nonlocal calls
        calls += what == "call"

    sys.setprofile(count)
    try:
        body = checkpoint_file.encode(snapshot, "silt/0")
    finally:
        sys.setprofile(None)
    assert calls < len(removed)
    assert (
        tuple(checkpoint_file.decode(snapshot.version, body, app_id="silt/0", checksum=None).removed.values())
        == removed
    )
