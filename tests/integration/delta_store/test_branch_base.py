"""The settled rows that a branch begins with: named, copied by whoever settles, and the branch's own from then on."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from conf.data_location import DataLocation
from delta_store.checking.verify_store import verify_store
from delta_store.config.stream_config import StreamConfig
from delta_store.entries.findings import Severity
from delta_store.entries.settled_file import decode
from delta_store.reading.branch_base import BranchBase
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_slice import PartFile, SlicePart, packed
from delta_store.reading.past_runs import PastRuns
from delta_store.reading.settled import SettledTable
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.settling import taken_files
from delta_store.stores.stores_open import open_stores
from delta_store.streams import restores
from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import BEGUN, CARRIED
from delta_store.values.as_of import AsOf
from delta_store.values.records import RowColumns
from tests.carried import settle_with_bases
from tests.s3 import BUCKET, s3_server, storage_options
from tests.tables import History, Tables, grown


class Branched(NamedTuple):
    """A branch that was begun, and what it must have."""

    rows: RowColumns
    base: BranchBase
    wanted: list[tuple[object, ...]]


def begun(
    tables: Tables, point: int | None, catalog: Catalog, *, origin: str = "S", name: str = "T"
) -> Branched | None:
    """Begin a branch of a stream at a point, in a catalog; None where nothing of it is settled."""
    runs = PastRuns(SlicePlanner.of(tables.location), tables.location)
    plan = runs.plan(origin, AsOf(seq=point))
    base = BranchBase.of(plan.slice.parts, plan.first_seq)
    if base is None:
        return None
    then = runs.of(plan, base.parts)
    wanted = [tuple(one) for run in runs.runs(then, then.seqs) for one in zip(*run.columns, strict=True)]
    rows = RowColumns()
    config, now_ns = StreamConfig(name=name, subjects=(name,)), tables.rows[-1].ts_ns
    state = restores.begin(catalog, config, now_ns=now_ns, rows=rows)
    bounds = (base.first_seq, base.last_seq)
    restores.rest_on(state, base.as_json(), bounds, now_ns=now_ns, rows=rows)
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


@pytest.mark.parametrize("seed", range(6, 12))
def test_the_messages_of_a_point_are_counted(tmp_path: Path, seed: int) -> None:
    """They are as many as there are, settled or not, whatever was removed from among them."""
    tables, history = grown(tmp_path, seed)
    runs = PastRuns(SlicePlanner.of(tables.location), tables.location)
    for point in (None, *range(1, history.seq, 3)):
        then = runs.at("S", AsOf(seq=point))
        assert runs.has_only(then.plan, then.seqs), point
        assert not runs.has_only(then.plan, np.append(then.seqs, history.seq + 1))
        assert not (len(then.seqs) and runs.has_only(then.plan, then.seqs[1:]))


def settled_rows(tables: Tables, stream: str) -> pa.Table:
    """All settled messages of a stream, every column, in order."""
    version, root = tables.owner.snapshot, tables.data / "messages"
    files = [file for file in version.of_stream(stream) if file.has_messages]
    found = [decode((root / file.path).read_bytes(), stream, file.subject_partition or "") for file in files]
    return pa.concat_tables(found).sort_by("seq").combine_chunks() if found else None


def test_branches_by_shared_files_are_those_by_copied_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row for row, column for column; some share all of their files, some a few, and what is said of each is so."""
    shared = []
    for seed in range(10):
        tables, history = grown(tmp_path / f"shared-{seed}", seed)
        dice = random.Random(seed)
        point = dice.choice([None, history.seq, dice.randrange(1, history.seq)])
        found = []
        for name in ("shared", "copied"):
            tables, _ = grown(tmp_path / f"{name}-{seed}", seed) if found else (tables, history)
            with monkeypatch.context() as patched:
                if name == "copied":
                    patched.setattr(taken_files, "can_take", lambda *_: False)
                made = begun(tables, point, Catalog())
                if made is None:
                    break
                tables.commit(list(made.rows.rows()))
                report = settle_with_bases(tables.owner, [row for row in tables.rows if not tables._settled(row)])
            found.append(settled_rows(tables, "T"))
            bodies = {path: path.read_bytes() for path in (tables.data / "messages").glob("stream=S/*/*.parquet")}
            theirs = [
                file for file in report.files if file.stream == "T" and not file.subject_partition.startswith("$e")
            ]
            for file in theirs:
                body = (tables.data / "messages" / file.path).read_bytes()
                assert (crc32(body), len(body)) == (file.checksum, file.size)
                begins = any(body.startswith(one) for one in bodies.values())
                assert begins <= (name == "shared")
                shared += [begins] if name == "shared" else []
            assert [
                one for one in verify_store(tables.location).findings if one.severity is not Severity.LEFT_OVER
            ] == []
        if len(found) == 2 and found[0] is not None:
            assert found[0].equals(found[1]), seed
    assert shared.count(True) > 2
    assert shared.count(False) > 2


def test_branches_of_branches_share_files_and_stand_by_themselves(tmp_path: Path) -> None:
    """Each has what the one before had, by its bytes; whatever is written over or deleted there."""
    tables, _ = grown(tmp_path, 3)
    tables.settle()
    wanted, names = [], ["S", "T", "U", "V"]
    for origin, name in pairwise(names):
        made = begun(tables, None, Catalog(), origin=origin, name=name)
        assert made is not None
        wanted = [(one[0], one[1]) for one in made.wanted]
        tables.commit(list(made.rows.rows()))
        settle_with_bases(tables.owner, [row for row in tables.rows if not tables._settled(row)])
        tables.marks = dict(tables.owner.note.watermarks)
    bodies = {
        name: [path.read_bytes() for path in (tmp_path / "messages").glob(f"stream={name}/*/*")] for name in names
    }
    for before, after in pairwise(names):
        assert any(body.startswith(one) for body in bodies[after] for one in bodies[before])
    table, columns = str(tmp_path / "messages"), ["stream", "stream_id", "seq", "event_no", "first_seq", "data"]
    own = settled_rows(tables, "V").select(columns).to_pylist()
    by_delta_rs = DeltaTable(table).to_pyarrow_table(
        columns=columns, filters=[("stream", "=", "V"), ("kind", "=", "message")]
    )
    assert by_delta_rs.sort_by("seq").to_pylist() == own
    lazy = pl.scan_delta(table).filter((pl.col("stream") == "V") & (pl.col("kind") == "message"))
    assert lazy.select(columns).sort("seq").collect().to_dicts() == own
    asked = f"SELECT {', '.join(columns)} FROM m WHERE stream = 'V' AND kind = 'message' ORDER BY seq"
    found = QueryBuilder().register("m", DeltaTable(table)).execute(asked)
    assert [row for batch in found for row in pa.record_batch(batch).to_pylist()] == own
    for path in (tmp_path / "messages").glob("stream=[STU]/*/*.parquet"):
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
        path.unlink()
    rows = settled_rows(tables, "V")
    assert list(zip(rows["subject"].to_pylist(), rows["seq"].to_pylist(), strict=True)) == wanted


def test_a_base_that_can_not_be_read_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is gone, or not what it was: the batch is settled without any row of the branch, and leaves no file."""

    def flip(file: Path) -> None:
        body = bytearray(file.read_bytes())
        body[len(body) // 3] ^= 1
        file.write_bytes(body)

    harms = (lambda file: file.unlink(), lambda file: file.write_bytes(b"PAR1 no"), flip)
    for number, harm in enumerate((*harms[:2], *harms)):
        if number == 2:
            monkeypatch.setattr(taken_files, "can_take", lambda *_: False)
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


def test_a_branch_in_an_object_store_has_its_origins_files(tmp_path: Path) -> None:
    """The same rows, by the same bytes, read through the store."""
    with s3_server() as server:
        location = DataLocation(f"s3://{BUCKET}/branch", storage_options(server.url))
        tables, history = Tables(tmp_path, store=location), History()
        tables.commit([history.create(), *(history.publish("s.1", b"%d" % number) for number in range(50))])
        tables.settle()
        made = begun(tables, None, Catalog())
        assert made is not None
        tables.commit(list(made.rows.rows()))
        settle_with_bases(tables.owner, [row for row in tables.rows if not tables._settled(row)])
        assert messages(tables, "T") == made.wanted
        storage, version = tables.owner.storage, tables.owner.snapshot
        [theirs], [own] = ([file for file in version.of_stream(name) if file.has_messages] for name in "ST")
        assert storage.read(own.path).startswith(storage.read(theirs.path))
        assert [one for one in verify_store(location).findings if one.severity is not Severity.LEFT_OVER] == []


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
