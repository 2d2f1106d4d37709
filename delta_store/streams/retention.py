"""A stream's limits: which messages they remove or refuse. Pure.

Order, as in nats-server's store: a message of a subject at its limit replaces that subject's oldest, then ``max_msgs``
and ``max_bytes`` remove from the front (discard old). With discard new a message that would not fit is refused instead.
Invariant: no subject is ever above its limit, so one new message evicts at most one old one.
"""

from typing import NamedTuple

import numpy as np

from delta_store.config.stream_config import StreamConfig
from delta_store.index.segments import Ints
from delta_store.index.stream_index import StreamIndex

MESSAGES_EXCEEDED = "maximum messages exceeded"
BYTES_EXCEEDED = "maximum bytes exceeded"
PER_SUBJECT_EXCEEDED = "maximum messages per subject exceeded"


class Added(NamedTuple):
    """Messages to be added, column by column (equal lengths)."""

    seqs: Ints
    """Ascending, behind all others."""
    sids: Ints
    ts_ns: Ints
    sizes: Ints
    """Stored sizes, bytes."""


class Effects(NamedTuple):
    """The removals by storing a run of messages, row by row, as their journal rows record them."""

    first_seqs: Ints | int
    """The stream's first sequence after each message; one number when it is the same for all."""
    evicts: Ints | None
    """The message that each one evicted from its subject, 0 for none; None when no message was evicted."""


def keeps_chains(config: StreamConfig) -> bool:
    """Whether the index must keep each message's successor in its subject."""
    return config.max_msgs_per_subject > 1


def refusal(config: StreamConfig, index: StreamIndex, *, sid: int, size: int, rolls_up: bool = False) -> str:
    """Return why a stream with discard new refuses a message of this stored size; empty when it does not.

    A message that ``rolls_up`` removes the others of its subject, so that a full subject has room for it.
    """
    if config.discard != "new":
        return ""
    limit = config.max_msgs_per_subject
    if config.discard_new_per_subject and not rolls_up and index.table.count.item(sid) >= limit:
        return PER_SUBJECT_EXCEEDED
    full_messages = config.max_msgs > 0 and index.msgs >= config.max_msgs
    full_bytes = config.max_bytes > 0 and index.bytes + size > config.max_bytes
    if not full_messages and not full_bytes:
        return ""
    if not (limit > 0 and index.table.count.item(sid) >= limit):
        return MESSAGES_EXCEEDED if full_messages else BYTES_EXCEEDED
    if full_bytes and index.live.size_of(index.ends.first(sid)) < size:
        return BYTES_EXCEEDED
    return ""


def has_room(config: StreamConfig, index: StreamIndex, *, messages: int, size: int) -> bool:
    """Whether so many more messages and bytes stay within ``max_msgs`` and ``max_bytes``."""
    return not (
        (config.max_msgs > 0 and index.msgs + messages > config.max_msgs)
        or (config.max_bytes > 0 and index.bytes + size > config.max_bytes)
    )


def cut_front(config: StreamConfig, index: StreamIndex) -> None:
    """Remove the oldest messages until ``max_msgs`` and ``max_bytes`` hold (discard old)."""
    if config.discard != "old" or has_room(config, index, messages=0, size=0):
        return
    too_many = index.msgs - config.max_msgs if config.max_msgs > 0 else 0
    too_large = index.bytes - config.max_bytes if config.max_bytes > 0 else 0
    if too_many <= 1 and too_large <= index.live.size_of(index.first_seq):
        index.remove(index.first_seq)
        return
    seqs, sizes = index.live.head(too_many, too_large)
    number = max(too_many, int(np.searchsorted(np.cumsum(sizes), too_large)) + 1 if too_large > 0 else 0)
    index.advance_first(int(seqs[number]) if number < len(seqs) else int(seqs[-1]) + 1)


def store_one(config: StreamConfig, index: StreamIndex, *, sid: int, ts_ns: int, size: int) -> tuple[int, int]:
    """Add the next message and apply the limits; return the first sequence then and the evicted one (0: none)."""
    limit = config.max_msgs_per_subject
    evicted = index.ends.first(sid) if limit > 0 and index.table.count.item(sid) >= limit else 0
    index.append(index.last_seq + 1, sid, ts_ns=ts_ns, size=size)
    if evicted:
        index.remove(evicted)
    cut_front(config, index)
    return index.first_seq, evicted


def store_run(config: StreamConfig, index: StreamIndex, new: Added) -> Effects:
    """Add the next messages and apply the limits after each, as :func:`store_one` one after the other."""
    seqs, sids, ts_ns, sizes = new
    room = has_room(config, index, messages=len(sids), size=int(sizes.sum()))
    per_subject = config.max_msgs_per_subject > 0
    if per_subject and not room:
        return _store_singly(config, index, new)
    evicts = _replaced(config.max_msgs_per_subject, index, seqs=seqs, sids=sids) if per_subject else None
    before_messages, before_bytes = index.msgs, index.bytes
    index.append_run(seqs, sids=sids, ts_ns=ts_ns, sizes=sizes)
    if evicts is not None:
        firsts = _firsts_after_evictions(index, evicts)
        index.remove_many(np.sort(evicts[evicts > 0]))
        return Effects(firsts, evicts)
    if room or config.discard != "old":
        return Effects(index.first_seq, None)
    over_messages = np.arange(1, len(seqs) + 1) + (before_messages - config.max_msgs) if config.max_msgs > 0 else None
    over_bytes = np.cumsum(sizes) + (before_bytes - config.max_bytes) if config.max_bytes > 0 else None
    firsts = _firsts_after_cuts(index, len(seqs), over_messages=over_messages, over_bytes=over_bytes)
    index.advance_first(int(firsts[-1]))
    return Effects(firsts, None)


def over_subject_limit(limit: int, index: StreamIndex) -> Ints:
    """Return the oldest messages of each subject that exceed ``limit``, ascending."""
    if limit <= 0 or not bool((index.table.count > limit).any()):
        return np.zeros(0, np.int64)
    seqs = index.live.sequences(index.first_seq, index.last_seq)
    sids = np.concatenate([segment.sid[segment.live_slots()] for segment in index.live.segments.values()])
    order = np.argsort(sids, kind="stable")
    ordered = sids[order]
    places = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    surplus: Ints = np.sort(seqs[order[places < index.table.count[ordered] - limit]])
    return surplus


def _store_singly(config: StreamConfig, index: StreamIndex, new: Added) -> Effects:
    stored = []
    for seq, sid, ts, size in zip(*(column.tolist() for column in new), strict=True):
        index.restore_bounds(first_seq=seq, last_seq=seq - 1, last_ts=0)
        stored.append(store_one(config, index, sid=sid, ts_ns=ts, size=size))
    firsts, evicts = zip(*stored, strict=True)
    return Effects(np.array(firsts, np.int64), np.array(evicts, np.int64))


def _replaced(limit: int, index: StreamIndex, *, seqs: Ints, sids: Ints) -> Ints | None:
    """Return, for each message of a run before it is added, the one that its subject loses; None when none does."""
    different, counts = np.unique(sids, return_counts=True)
    have = index.table.count[different]
    full = have + counts > limit
    if not full.any():
        return None
    order = np.argsort(sids, kind="stable")
    starts = np.searchsorted(sids[order], different[full])
    evicts = np.zeros(len(sids), np.int64)
    columns = (different[full].tolist(), have[full].tolist(), counts[full].tolist(), starts.tolist())
    for sid, old, new, start in zip(*columns, strict=True):
        surplus = old + new - limit
        if old == surplus == 1:
            evicts[order[start + new - 1]] = index.ends.first(sid)
            continue
        lost = index.ends.firsts(sid, min(surplus, old)) if old else []
        mine = order[start : start + new]
        lost += seqs[mine[: surplus - len(lost)]].tolist()
        evicts[mine[new - surplus :]] = lost
    return evicts


def _firsts_after_evictions(index: StreamIndex, evicts: Ints) -> Ints | int:
    """Return the first sequence after each message of an added run, before its evicted ones are removed.

    The first live message after step i is the first one whose eviction comes later than i, or never.
    """
    if not (evicts == index.first_seq).any():
        return index.first_seq
    steps = np.flatnonzero(evicts)
    by_seq = np.argsort(evicts[steps])
    lost = evicts[steps][by_seq]
    front, _ = index.live.head(len(lost) + 1, 0)
    places = np.minimum(np.searchsorted(lost, front), len(lost) - 1)
    gone_at = np.where(lost[places] == front, steps[by_seq][places], len(evicts))
    firsts: Ints = front[np.searchsorted(np.maximum.accumulate(gone_at), np.arange(len(evicts)), side="right")]
    return firsts


def _firsts_after_cuts(index: StreamIndex, run: int, *, over_messages: Ints | None, over_bytes: Ints | None) -> Ints:
    """Return the first sequence after each message of an added run, when the oldest go until no limit is exceeded.

    ``over_…``: by how much the limit would be exceeded after each message if nothing were removed.
    """
    most = max(0, int(over_messages[-1])) if over_messages is not None else 0
    largest = max(0, int(over_bytes[-1])) if over_bytes is not None else 0
    front, sizes = index.live.head(most + 1, largest)
    number = np.zeros(run, np.int64)
    if over_messages is not None:
        number = np.maximum(number, over_messages)
    if over_bytes is not None:
        removed = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        number = np.maximum(number, np.searchsorted(removed, over_bytes))
    behind = index.live.next(int(front[-1]) + 1) or index.last_seq + 1
    firsts: Ints = np.append(front, behind)[number]
    return firsts
