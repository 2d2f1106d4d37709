"""Chains: from each message to the next one of its subject, as distances in the segments.

By its chain a subject's oldest message is found in constant time after the oldest was removed, however far apart its
messages are. A distance is a hint: where the slot it leads from or to has been packed away, the caller searches
instead. A removed message keeps its distance while its slot lasts.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from delta_store.index.segments import SEGMENT_SHIFT, Ints, Segment, by_segment
from delta_store.index.subject_table import SubjectTable

Segments = Mapping[int, Segment]


def link(segments: Segments, seq: int, following: int) -> None:
    """Record that the message after ``seq`` in its subject is ``following``."""
    segment = segments.get(seq >> SEGMENT_SHIFT)
    slot = segment.slot(seq) if segment is not None else -1
    if segment is not None and slot >= 0:
        segment.link(slot, following - seq)


def link_run(segments: Segments, table: SubjectTable, *, seqs: Ints, sids: Ints) -> None:
    """Chain the subjects' last messages to their first ones in a run that is about to be added."""
    different, places = np.unique(sids, return_index=True)
    known = table.count[different] > 0
    before = table.last[different[known]].tolist()
    for seq, following in zip(before, seqs[places[known]].tolist(), strict=True):
        link(segments, seq, following)


def link_within(segments: Segments, *, seqs: Ints, sids: Ints) -> None:
    """Chain the messages of a run that was just added."""
    order = np.argsort(sids, kind="stable")
    ordered = sids[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    distances = np.zeros(len(seqs), np.int64)
    distances[order[same]] = seqs[order[same + 1]] - seqs[order[same]]
    for key, part in by_segment(seqs):
        segment = segments[key]
        if segment.chain is not None:
            segment.chain[segment.slots(seqs[part])] = distances[part].astype(np.uint32)


def build(segments: Segments, keys: Iterable[int]) -> None:
    """Chain all live messages of segments (by ascending keys) that had no chains."""
    latest: dict[int, int] = {}
    for key in keys:
        segment = segments[key]
        segment.start_chain()
        slots = segment.live_slots()
        for seq, sid in zip(segment.sequences(slots).tolist(), segment.sid[slots].tolist(), strict=True):
            if sid in latest:
                link(segments, latest[sid], seq)
            latest[sid] = seq


def follow(segments: Segments, seq: int, sid: int) -> int:
    """Return the next live message of a subject behind ``seq``; 0 when the chain is broken or ends."""
    segment = segments.get(seq >> SEGMENT_SHIFT)
    while segment is not None and segment.chain is not None:
        slot = segment.slot(seq)
        distance = segment.chain.item(slot) if slot >= 0 else 0
        if not distance:
            return 0
        seq += distance
        segment = segments.get(seq >> SEGMENT_SHIFT)
        slot = segment.slot(seq) if segment is not None else -1
        if segment is not None and slot >= 0 and segment.sid.item(slot) == sid:
            return seq
    return 0
