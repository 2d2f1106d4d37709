"""The settled rows that a branch begins with: named, copied by whoever settles, and the branch's own from then on."""

import json
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from delta_store.checking.verify_store import verify_store
from delta_store.config.stream_config import StreamConfig
from delta_store.entries.findings import Severity
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_slice import PartFile, SlicePart, packed
from delta_store.reading.past_runs import PastRuns
from delta_store.reading.settled import SettledTable
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.stores.stores_open import open_stores
from delta_store.streams import restores
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import BEGUN, CARRIED
from delta_store.values.as_of import AsOf
from delta_store.values.records import RowColumns
from tests.carried import settle_with_bases
from tests.tables import Tables, grown


class Branched(NamedTuple):
    """A branch that was begun, and what it must have."""

    rows: RowColumns
    base: BranchBase
    wanted: list[tuple[object, ...]]


def begun(tables: Tables, point: int | None, catalog: Catalog) -> Branched | None:
    """Begin branch T of S at a point, in a catalog; None where nothing of it is settled."""
    runs = PastRuns(SlicePlanner.of(tables.location), tables.location)
    plan = runs.plan("S", AsOf(seq=point))
    base = BranchBase.of(plan.slice.parts, plan.first_seq)
    if base is None:
        return None
    then = runs.of(plan, base.parts)
    wanted = [tuple(one) for run in runs.runs(then, then.seqs) for one in zip(*run.columns, strict=True)]
    rows = RowColumns()
    state = restores.begin(catalog, StreamConfig(name="T", subjects=("t",)), now_ns=tables.rows[-1].ts_ns, rows=rows)
    bounds = (base.first_seq, base.last_seq)
    restores.rest_on(state, base.as_json(), bounds, now_ns=tables.rows[-1].ts_ns, rows=rows)
    return Branched(rows, base, wanted)


def messages(tables: Tables, stream: str) -> list[tuple[object, ...]]:
    """The live messages of a stream by the tables."""
    runs = PastRuns(SlicePlanner.of(tables.location), tables.location)
    then = runs.at(stream, AsOf())
    return [tuple(one) for run in runs.runs(then, then.seqs) for one in zip(*run.columns, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_a_branch_has_what_was_settled_of_its_origin_at_the_point(tmp_path: Path, seed: int) -> None:
    """Sequences, times, subjects, headers, payloads; and it is a stream of its own, whatever becomes of the origin."""
    tables, history = grown(tmp_path, seed)
    dice = random.Random(seed)
    catalog = Catalog()
    made = begun(tables, dice.choice([None, history.seq, dice.randrange(1, history.seq)]), catalog)
    if made is None:
        return
    tables.commit(list(made.rows.rows()))
    origin = messages(tables, "S")
    report = settle_with_bases(tables.owner, [row for row in tables.rows if not tables._settled(row)])
    tables.marks = dict(tables.owner.note.watermarks)
    assert report.added.get("T", 0) == len(made.rows) + len(made.wanted)
    assert messages(tables, "T") == made.wanted
    assert messages(tables, "S") == origin
    assert [one for one in verify_store(tables.location).findings if one.severity is not Severity.LEFT_OVER] == []
    data = tables.location
    journal = JournalTail(data.table("journal"))
    opened = open_stores(SettledTable(data.table("messages")), journal).catalog
    index = opened.streams["T"].index
    assert [int(seq) for seq in index.live.sequences(1, 1 << 40)] == [one[1] for one in made.wanted]
    assert (index.last_seq, opened.streams["T"].restored) == (made.base.last_seq, BEGUN)
    assert index.first_seq == (made.wanted[0][1] if made.wanted else made.base.last_seq + 1)
    rows = RowColumns()
    restores.show(catalog, catalog.restoring["T"], now_ns=0, rows=rows)
    assert json.loads(rows.data[0])["restored"] == CARRIED


def test_a_base_that_can_not_be_read_adds_nothing(tmp_path: Path) -> None:
    """A file is gone, or not what it was: the batch is settled without any row of the branch, and leaves no file."""
    for number, harm in enumerate((lambda file: file.unlink(), lambda file: file.write_bytes(b"PAR1 no"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        tables, _ = grown(folder, 3)
        tables.settle()
        made = begun(tables, None, Catalog())
        assert made is not None
        tables.commit(list(made.rows.rows()))
        files = [file for part in made.base.parts for file in part.files]
        harm(folder / "messages" / files[-1].path)
        report = settle_with_bases(tables.owner, [row for row in tables.rows if not tables._settled(row)])
        assert report.added["T"] == len(made.rows)
        named = {file.path for file in report.files}
        found = {str(path.relative_to(folder / "messages")) for path in (folder / "messages").glob("stream=T/*/*")}
        assert found == {path for path in named if path.startswith("stream=T")}


def test_a_base_survives_its_persisted_form() -> None:
    """Files with their folders, ranges and evictions."""
    part = SlicePart(
        "S",
        7,
        "messages",
        (PartFile("a", 1, 5, "s.1"), PartFile("b", 2, 9, "b03")),
        MessageBounds(seqs=(2, 9)),
        ((2, 3), (5, 5)),
    )
    base = BranchBase(
        2, (part, part._replace(files=(PartFile("c", 3, 4, "$recent"),), evicted=packed(np.array((4, 8), np.int64))))
    )
    again = BranchBase.from_json(json.dumps(base.as_json()))
    assert again == base
    assert again.last_seq == 9
