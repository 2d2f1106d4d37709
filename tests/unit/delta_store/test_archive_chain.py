"""Increments that follow a whole archive, made into one: what was there at the last moment, and nothing else."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.archive import s2_frames
from delta_store.archive.archive_chain import merged_archive
from delta_store.archive.archive_checker import ArchiveChecker
from delta_store.archive.archived import ArchivedConsumer, ArchivedState
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import END, FROM_SEQ, LIVE_BEFORE, MAGIC, ArchiveEntry, encode
from delta_store.archive.entry_run import EntryRun
from delta_store.streams.event_rows import ranges_of
from delta_store.values import subjects

TS_NS = 1_764_000_000_000_000_000


def part(live: Sequence[int], last: int, since: int = 0, consumers: Sequence[str] = (), **state: Any) -> bytes:
    """An archive of a stream with these messages; with ``since`` an increment from that sequence on."""
    shown: dict[str, Any] = {"first_seq": min(live, default=last + 1), "last_seq": last, "messages": len(live)}
    shown |= {"consumer_count": len(consumers)}
    if since:
        shown |= {FROM_SEQ: since, LIVE_BEFORE: ranges_of([seq for seq in live if seq < since])}
    shown |= state
    entries = [ArchiveEntry("state.json", 1, 0, b"", json.dumps(shown).encode())]
    entries += [ArchiveEntry(f"consumers/{name}", 1, 0, b"", b"{}") for name in consumers]
    entries += [ArchiveEntry(f"s.{seq}", TS_NS + seq, seq, b"", b"%d" % seq) for seq in live if seq >= since]
    return s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, [*entries, END])))


def merged(parts: Sequence[bytes], step: int = 50) -> tuple[ArchivedState, list[str], list[int]]:
    """State, consumers and sequences of the archive that these make up."""
    checker = ArchiveChecker("S", message_bytes_max=100, sequence_max=2**62, valid_subject=subjects.literal)
    pieces = [[one[at : at + step] for at in range(0, len(one), step)] for one in parts]
    items = [item for piece in merged_archive(pieces) for item in checker.feed(piece)]
    assert checker.ended
    [state] = [item for item in items if isinstance(item, ArchivedState)]
    seqs = []
    for run in (item for item in items if isinstance(item, EntryRun)):
        assert run.subjects == [f"s.{seq}" for seq in run.seqs]
        assert run.data == [b"%d" % seq for seq in run.seqs]
        seqs += run.seqs.tolist()
    return state, [item.name for item in items if isinstance(item, ArchivedConsumer)], seqs


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.sets(st.integers(1, 120))), min_size=1, max_size=4), st.integers(20, 5000)
)
def test_a_chain_has_what_its_last_archive_saw(steps: list[tuple[int, set[int]]], step: int) -> None:
    """Whatever comes and goes between the archives."""
    live: list[int] = []
    parts: list[bytes] = []
    last = 0
    for added, gone in steps:
        since = last + 1 if parts else 0
        live = [seq for seq in [*live, *range(last + 1, last + 1 + added)] if seq not in gone]
        last += added
        parts.append(part(live, last, since, ["c"] if added % 2 else []))
    state, consumers, seqs = merged(parts, step)
    assert seqs == live
    assert consumers == (["c"] if steps[-1][0] % 2 else [])
    assert state.last_seq == last


WHOLE = part([1, 2, 3], 3)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([WHOLE, part([1, 5], 5, 5)], "increment 1 does not follow the archive before it, which ends with 3"),
        ([WHOLE, part([1, 3], 3, 3)], "increment 1 does not follow"),
        ([WHOLE, WHOLE], "increment 1 does not follow"),
        ([part([4], 4, 1), part([4], 4, 5)], "increment 0 does not follow"),
        ([WHOLE, part([1, 2, 4], 4, 4, messages=4)], "have 3 messages, their state says 4"),
        ([part([1, 2], 3), part([1, 3, 4], 4, 4)], "have 2 messages, their state says 3"),
        ([WHOLE[:-20], part([1, 4], 4, 4)], "unexpected EOF"),
        ([WHOLE, part([1, 4], 4, 4)[:-20]], "unexpected EOF"),
        ([b"", WHOLE], "unexpected EOF"),
        ([WHOLE, part([1, 4], 4, 4, consumer_count=2)], "expected consumer"),
        ([WHOLE, part([1, 4], 4, 4, consumer_count="x")], "is no number"),
        ([WHOLE, part([1, 4], 4, 4, silt_live="x")], "is no list of ranges"),
        ([WHOLE, part([1, 4], 4, 4, silt_live=[[1, -1]])], "is no list of ranges"),
    ],
)
def test_what_does_not_follow_is_refused(parts: list[bytes], text: str) -> None:
    """Archives of other moments, with other messages, cut or damaged."""
    with pytest.raises(BadArchive, match=text):
        merged(parts)
