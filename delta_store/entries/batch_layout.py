"""The rows of a batch as Arrow tables: their order, their summary, the files they go into. Pure.

Columns are those of ``messages``, ``whole`` and ``id_hash`` (:mod:`delta_store.entries.batch_columns`).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conf.limits import SUBJECT_PARTITIONS_EXACT_MAX
from delta_store.config.history import own_history
from delta_store.entries.batch_report import BatchReport, BatchRun, Int64s, Told
from delta_store.typed.typing_keys import own_metadata
from delta_store.values.folder_layout import UNSPREAD, subject_folder, subject_hash
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, RECENT_PARTITION
from delta_store.values.watermark import Run

_NO_SEQ = 1 << 62
_STATES = (Kind.CONSUMER_STATE, Kind.SOURCE_STATE)


class FolderRows(NamedTuple):
    """The rows of one file."""

    stream: str
    subject_partition: str
    rows: pa.Table


def in_order(rows: pa.Table) -> pa.Table:
    """Return the rows by stream and position."""
    streams = _coded(rows["stream"])[0]
    order = np.lexsort((_ints(rows, "event_no"), _ints(rows, "seq"), _ints(rows, "stream_id"), streams))
    return rows if bool((order[1:] > order[:-1]).all()) else rows.take(order)


def summarised(rows: pa.Table, bucketed: Collection[str] = ()) -> BatchReport:
    """Return a report, without files, of rows that are in order; subjects of ``bucketed`` streams are not counted."""
    streams, names = _coded(rows["stream"])
    ids, seqs, events = (_ints(rows, name) for name in ("stream_id", "seq", "event_no"))
    starts = _starts(streams, ids)
    message = _equal(rows["kind"], Kind.MESSAGE)
    removes = (_ints(rows, "evicts") > 0) | _equal(rows["kind"], Kind.REMOVE)
    damaged = ~pc.fill_null(rows["whole"], False).to_numpy()
    messages, removals, faults = (_counted(mask, starts) for mask in (message, removes, damaged))
    lowest = np.minimum.reduceat(np.where(message, seqs, _NO_SEQ), starts)
    highest = np.maximum.reduceat(np.where(message, seqs, 0), starts)
    subjects, texts = _coded(rows["subject"])
    hashes = np.fromiter(map(subject_hash, texts), np.int64, len(texts))[subjects]
    fronts = _ints(rows, "first_seq")
    runs = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(ids)], strict=True)):
        name, last = names[streams[start]], end - 1
        ends = (int(seqs[start]), int(events[start])), (int(seqs[last]), int(events[last])), int(fronts[last])
        low = int(lowest[number]) if messages[number] else 0
        run = Run(name, int(ids[start]), int(messages[number]), low, int(highest[number]), *ends)
        few = () if name in bucketed else np.unique(hashes[start:end][message[start:end]])
        counted = tuple(int(one) for one in few[: SUBJECT_PARTITIONS_EXACT_MAX + 1])
        others = int(end - start - messages[number])
        runs.append(BatchRun(run, others, int(removals[number]), int(faults[number]), counted))
    bearing = rows.select(["id_hash", "ts_ns"]).drop_null()
    return BatchReport((), tuple(runs), _told(rows), _ints(bearing, "id_hash"), _ints(bearing, "ts_ns"))


def of_consumers(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows into those of consumers and all others."""
    theirs = pc.equal(rows["subject_partition"], CONSUMERS_PARTITION)
    if not pc.any(theirs).as_py():  # filtering copies
        return rows.slice(0, 0), rows
    return rows.filter(theirs), rows.filter(pc.invert(theirs))


def newest_of_consumers(rows: pa.Table) -> pa.Table:
    """Drop the rows of consumers, in order, that a later one supersedes.

    A consumer's last deletion is needed, and what came behind it: its newest state, its newest configuration, and the
    one at the time of that state.
    """
    needed: dict[tuple[Any, ...], dict[str, int]] = {}
    keys = (rows[name].to_pylist() for name in ("stream", "stream_id", "subject", "kind"))
    for place, (*consumer, kind) in enumerate(zip(*keys, strict=True)):
        if kind == Kind.CONSUMER_DELETE:
            needed[tuple(consumer)] = {"deleted": place}
            continue
        mine = needed.setdefault(tuple(consumer), {})
        if kind in _STATES:
            mine["state"] = place
            if "config" in mine:
                mine["config_then"] = mine["config"]
        else:
            mine["config"] = place
    kept = {place for mine in needed.values() for place in mine.values()}
    return rows if len(kept) == rows.num_rows else rows.take(sorted(kept))


def without(rows: pa.Table, dead: Collection[Mapping[str, int]], *, file: str) -> pa.Table:
    """Leave out the rows at these positions; raise :class:`DamagedData` unless each is there."""
    if not dead:
        return rows
    gone = {tuple(position.values()) for position in dead}
    places = zip(*(rows[name].to_pylist() for name in ("stream_id", "seq", "event_no")), strict=True)
    kept = np.fromiter((place not in gone for place in places), bool, rows.num_rows)
    if rows.num_rows - np.count_nonzero(kept) != len(dead):
        raise DamagedData(file, f"{len(dead)} rows are to leave it, and not all are there once")
    return rows.filter(pa.array(kept))


def laid_out(rows: pa.Table, bucketed: Collection[str], *, spread_rows_min: int) -> Iterator[FolderRows]:
    """Iterate over the files of rows that are in order; so many recent messages of a stream are spread by subject."""
    streams, names = _coded(rows["stream"])
    starts = _starts(streams)
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        name, mine = names[streams[start]], rows.slice(start, end - start)
        codes, partitions = _coded(mine["subject_partition"])
        for code, partition in enumerate(partitions):
            chosen = mine if len(partitions) == 1 else mine.filter(codes == code)
            if partition == RECENT_PARTITION and chosen.num_rows >= spread_rows_min:
                yield from _spread(name, chosen, bucketed)
            else:
                yield FolderRows(name, partition, chosen if partition in UNSPREAD else _by_subject(chosen))


def _spread(stream: str, rows: pa.Table, bucketed: Collection[str]) -> Iterator[FolderRows]:
    codes, texts = _coded(rows["subject"])
    exact = stream not in bucketed and len(texts) <= SUBJECT_PARTITIONS_EXACT_MAX
    of_subject = [subject_folder(text, exact=exact) for text in texts]
    folders = sorted(set(of_subject))
    number_of = {folder: number for number, folder in enumerate(folders)}
    numbers = np.array([number_of[folder] for folder in of_subject], dtype=np.int64)[codes]
    order = np.lexsort((_ranks(texts)[codes], numbers))
    ordered, ends = rows.take(order), np.bincount(numbers).cumsum()
    for folder, start, end in zip(folders, [0, *ends[:-1]], ends, strict=True):
        yield FolderRows(stream, folder, ordered.slice(start, end - start))


def _by_subject(rows: pa.Table) -> pa.Table:
    codes, texts = _coded(rows["subject"])
    return rows if len(texts) == 1 else rows.take(np.argsort(_ranks(texts)[codes], kind="stable"))


def _ranks(texts: list[str]) -> Int64s:
    ranks = np.empty(len(texts), dtype=np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks


def _told(rows: pa.Table) -> tuple[Told, ...]:
    chosen = rows.filter(pc.equal(rows["kind"], Kind.STREAM.value))
    columns = (chosen[name].to_pylist() for name in ("stream_id", "seq", "event_no", "stream", "data"))
    return tuple(sorted(told_by(place, stream, data) for *place, stream, data in zip(*columns, strict=True)))


def told_by(position: Iterable[int], stream: str, data: bytes) -> Told:
    """Return what a STREAM row says."""
    shown = json.loads(data)
    config = shown["config"]
    metadata = config.get("metadata") or {}
    window, skips = int(config.get("duplicate_window", 0)), bool(config.get("mirror")) or "restored" in shown
    base = json.dumps(shown["base"]) if "base" in shown else ""
    return Told._make((*position, stream, window, skips, own_metadata(metadata), own_history(metadata), base))


def _coded(column: pa.ChunkedArray) -> tuple[Int64s, list[str]]:
    """Return a column of strings as numbers, and the strings by number."""
    coded = pc.dictionary_encode(column.combine_chunks())
    return coded.indices.to_numpy(), coded.dictionary.to_pylist()


def _starts(*columns: Int64s) -> Int64s:
    """Return the places where a value differs from the one before."""
    first = np.ones(len(columns[0]), dtype=bool)
    first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(first)


def _counted(mask: npt.NDArray[np.bool_], starts: Int64s) -> Int64s:
    return np.add.reduceat(mask.astype(np.int64), starts)


def _equal(column: pa.ChunkedArray, kind: Kind) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.equal(column, kind.value).to_numpy()
    return found


def _ints(rows: pa.Table, name: str) -> Int64s:
    found: Int64s = rows[name].to_numpy()
    return found
