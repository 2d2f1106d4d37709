"""A watermark is believed only as far as the settled files, the notes and the journal bear it out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_stores import claim_stores
from conf.data_location import DataLocation
from conf.settings import load_settings
from delta_store.log.settled_durability import NotDurable
from delta_store.reading.journal_tail import JournalTail
from delta_store.storage.local_storage import LocalStorage
from delta_store.stores.stores_open import open_stores
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import CommitNote, Watermark
from tests.groups import open_journal
from tests.stores import Both, lose_adds

Edit = Callable[[dict[str, Any]], None]


def edit_note(path: Path, edit: Edit, *, reseal: bool = False) -> None:
    """Change the note of an entry; with ``reseal`` its checksum is made anew, as if it had been written so."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if info := line.get("commitInfo"):
            note = json.loads(info["userMetadata"])
            edit(note)
            if reseal:
                del note["crc"]
                info["userMetadata"] = CommitNote.from_json(json.dumps(note)).as_json()
            else:
                info["userMetadata"] = json.dumps(note, separators=(",", ":"))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def ahead(note: dict[str, Any]) -> None:
    """Say that more is settled than is."""
    note["watermarks"]["S"]["seq"] = 900


def test_a_healthy_store_is_confirmed(tmp_path: Path) -> None:
    """Each commit that settled what the journal still has is checked, also after compaction and truncation."""
    here = Both(tmp_path)
    assert here.confirm() == 2
    here.tables.compact()
    assert here.confirm() == 2
    assert here.journal.truncate({"S": here.tables.marks["S"].position}) == 2
    assert here.confirm() == 0
    assert Both(tmp_path / "older", claims=False).confirm() == 2


@pytest.mark.parametrize("claims", [True, False])
def test_a_watermark_ahead_of_its_rows_is_refused(tmp_path: Path, *, claims: bool) -> None:
    """A changed note does not match its checksum; one without a checksum, or sealed anew, not what is in the files."""
    here = Both(tmp_path, claims=claims)
    edit_note(here.entry(), ahead)
    with pytest.raises(DamagedData, match=r"0001\.json.*checksum"):
        here.relied_on.refresh()
    edit_note(here.entry(), ahead, reseal=True)
    with pytest.raises((DamagedData, NotDurable), match="is 900, the rows that it adds end at 700"):
        here.confirm()
    options = GatewayOptions("", "", DataLocation(str(tmp_path)), "", api_over_leaf=False)
    if claims:  # known to be wrong by itself, and the journal still has its rows: passed over, to be settled again
        assert claim_stores(options, load_settings()).catalog.streams["S"].index.msgs == 800
    else:
        with pytest.raises(DamagedData, match="900"):
            claim_stores(options, load_settings())


def test_an_entry_that_lost_adds_is_refused(tmp_path: Path) -> None:
    """By who opens the table, by who follows it, and before the journal forgets also where notes claim nothing."""
    here, older = Both(tmp_path / "new"), Both(tmp_path / "old", claims=False)
    lose_adds(here.entry())
    lose_adds(older.entry(), keep='\\"seq\\":700')
    with pytest.raises(DamagedData, match=r"0001\.json.*where its note says 300"):
        here.relied_on.refresh()
    with pytest.raises(NotDurable, match="settled 300 rows of the journal and its files have"):
        older.confirm()


def test_lost_adds_of_older_entries_are_missed(tmp_path: Path) -> None:
    """An older entry is named too, although the newest one is whole: its rows are counted all the same."""
    here = Both(tmp_path)
    lose_adds(here.entry(0))
    with pytest.raises(DamagedData, match=r"0000\.json is damaged: it adds \d+ rows .* where its note says 401"):
        here.relied_on.refresh()


def test_a_follower_holds_each_commit_against_the_last(tmp_path: Path) -> None:
    """Compaction that loses rows, a watermark that goes back, rows without a note: refused by a running reader."""
    here = Both(tmp_path)
    follower = here.settled
    before = follower.refresh()
    here.tables.compact()
    whole = here.entry(2).read_text()
    for wrong, text in (
        ("700|701", "".join(line for line in whole.splitlines(True) if not line.startswith('{"add"'))),
        ("has no note", "".join(line for line in whole.splitlines(True) if '"remove"' in line)),
    ):
        here.entry(2).write_text(text)
        with pytest.raises(DamagedData, match=rf"0002\.json.*({wrong})"):
            follower.refresh()
        assert follower.snapshot is before
    here.entry(2).write_text(whole)
    edit_note(here.entry(2), lambda note: note["watermarks"]["S"].update(seq=600), reseal=True)
    with pytest.raises(DamagedData, match="behind the one before it"):
        follower.refresh()
    here.entry(2).write_text(whole)
    assert follower.refresh().rows == 701


def test_a_lost_journal_is_not_begun_anew(tmp_path: Path) -> None:
    """Neither gateway nor reader takes settled rows without a journal for a new store."""
    here = Both(tmp_path)
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    options = GatewayOptions("", "", DataLocation(str(tmp_path)), "", api_over_leaf=False)
    for opening in (
        lambda: claim_stores(options, load_settings()),
        lambda: open_stores(here.settled, JournalTail(str(tmp_path / "journal"))),
    ):
        with pytest.raises(DamagedData, match=r"journal is damaged: it is gone.*silt repair --accept-lost-journal"):
            opening()
    assert not (tmp_path / "journal").exists()


def test_tables_of_different_days_are_refused(tmp_path: Path) -> None:
    """The journal must go on where ``messages`` ends: no hole between them, and no watermark behind its end."""
    here = Both(tmp_path)
    options = GatewayOptions("", "", DataLocation(str(tmp_path)), "", api_over_leaf=False)
    assert claim_stores(options, load_settings()).catalog.streams["S"].index.last_seq == 800
    here.journal = open_journal(tmp_path / "journal")
    here.journal.truncate({"S": here.tables.marks["S"].position})
    here.entry(1).unlink()  # as brought back from a backup
    with pytest.raises(
        DamagedData, match=r"the journal has stream 'S' from sequence 701 .*messages has up to sequence 400"
    ):
        claim_stores(options, load_settings())


def test_the_journal_of_an_empty_store_may_be_new(tmp_path: Path) -> None:
    """A folder where nothing was ever settled opens as it always did."""
    options = GatewayOptions("", "", DataLocation(str(tmp_path)), "", api_over_leaf=False)
    assert claim_stores(options, load_settings()).journal.reader.version == 1
    assert LocalStorage(tmp_path / "journal").sizes("_delta_log").keys() >= {f"{0:020d}.json"}
    assert Watermark(1, 2, 3, 4).position == (1, 2, 3)
