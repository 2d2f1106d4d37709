"""A consumer's position in its stream: the next first deliveries, and the number of messages left."""

from itertools import islice
from typing import Final

from conf.limits import SEQUENCE_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.machine.stream_view import StreamView
from delta_store.index.matching import count_matching, last_per_subject, next_matching
from delta_store.index.stream_index import StreamIndex
from delta_store.values.subjects import SubjectFilter

_SEGMENTS_PER_STEP: Final = 64
"""Segments that one step searches for further matches."""


def chosen_subjects(config: MachineConfig) -> SubjectFilter | None:
    """Return the filter of a configuration, None for all messages."""
    chosen = SubjectFilter(config.filters) if config.filters else None
    return None if chosen is None or chosen.matches_all else chosen


def start_position(config: MachineConfig, stream: StreamView) -> tuple[int, list[int]]:
    """Return a new consumer's first sequence and, for ``last_per_subject``, the sequences to deliver before."""
    index, policy = stream.index, config.deliver_policy
    first, last = index.first_seq, index.last_seq
    if policy == "by_start_sequence" and config.opt_start_seq:
        return max(min(config.opt_start_seq, SEQUENCE_MAX), first, 1), []
    if not last:
        return 1, []
    chosen = chosen_subjects(config)
    if policy == "last_per_subject":
        firsts = last_per_subject(index, chosen or SubjectFilter.everything())
        return last + 1 if firsts else max(last, first), firsts
    if policy == "last":
        start = last if chosen is None else max(last_per_subject(index, chosen), default=0)
    elif policy == "by_start_time":
        start = index.seq_at_time(config.opt_start_time)
        if chosen is not None and start < last:
            start = max(start, next_matching(index, chosen, start))
    else:
        start = first if policy == "all" else last + 1
    return max(start, first, 1), []


def matching_run(
    index: StreamIndex, chosen: SubjectFilter | None, *, from_seq: int, to_seq: int, limit: int
) -> list[int]:
    """Return live matching sequences from ``from_seq`` to ``to_seq``, ascending, at most ``limit``.

    It may return fewer than match, but returns none only if none matches.
    """
    if chosen is None and not index.num_deleted:
        start = max(from_seq, index.first_seq, 1)
        return list(range(start, min(to_seq, index.last_seq, start + limit - 1) + 1))
    first = next_matching(index, chosen, from_seq)
    if not first or first > to_seq:
        return []
    found: list[int] = []
    for segment, start in islice(index.live.segments_from(first), _SEGMENTS_PER_STEP):
        if segment.base > to_seq or len(found) >= limit:
            break
        mask = index.table.mask(chosen) if chosen is not None else None
        end, at, width = segment.start(to_seq + 1), start, 2 * limit
        while at < end and len(found) < limit:
            slots = segment.live_slots(at, min(end, at + width))
            if mask is not None:
                slots = slots[mask[segment.sid[slots]]]
            found += segment.sequences(slots).tolist()
            at, width = at + width, 2 * width
    return found[:limit]


class ReadPosition:
    """The next sequence to consider, and the number of matching messages from there on."""

    __slots__ = (
        "_counted",
        "_counted_to",
        "_removals",
        "_stream",
        "chosen",
        "next_seq",
        "skip",
        "skip_until",
    )

    def __init__(self, stream: StreamView, chosen: SubjectFilter | None, next_seq: int) -> None:
        self._stream = stream
        self.chosen = chosen
        self.next_seq = next_seq
        self.skip: list[int] = []
        """Sequences to deliver first: each subject's last message up to :attr:`skip_until`."""
        self.skip_until = 0
        self._counted = 0
        self._counted_to = 0
        self._removals = -1

    def start_with(self, seqs: list[int], until: int) -> None:
        """Deliver ``seqs`` before the messages behind ``until``."""
        self.skip, self.skip_until, self._removals = seqs, until if seqs else 0, -1
        if seqs:
            self.next_seq = seqs[0]

    def move(self, next_seq: int) -> None:
        """Continue at a sequence, forwards or backwards."""
        self.skip, self.skip_until, self.next_seq, self._removals = [], 0, next_seq, -1

    def filter_by(self, chosen: SubjectFilter | None) -> None:
        """Apply another filter from here on."""
        self.chosen = chosen
        self._removals = -1
        if chosen is not None:
            names = [(seq, self._stream.index.subject_of(seq)) for seq in self.skip]
            self.skip = [seq for seq, name in names if name is not None and chosen.matches(name)]

    def wants(self, seq: int) -> bool:
        """Whether a live message matches the filter."""
        subject = self._stream.index.subject_of(seq)
        return subject is not None and (self.chosen is None or self.chosen.matches(subject))

    @property
    def num_pending(self) -> int:
        """Number of durable matching messages never delivered; of a view that is not open, the most there can be."""
        if not self._stream.is_open:
            return max(0, self._stream.durable_seq - self.next_seq + 1)
        self._count_new()
        return self._counted + len(self.skip)

    @property
    def num_gathering(self) -> int:
        """Number of matching messages that are not durable yet."""
        stream, base = self._stream, self.skip_until + 1 if self.skip else self.next_seq
        return self._between(max(base, stream.durable_seq + 1), stream.index.last_seq)

    def upcoming(self, limit: int) -> list[int]:
        """Return the next sequences to deliver."""
        durable, index = self._stream.durable_seq, self._stream.index
        if self.skip and self._removals != self._stream.removals:
            self._count_new()
        if self.skip:
            return [seq for seq in self.skip[:limit] if seq <= durable]
        if self.next_seq > durable or limit <= 0:
            return []
        found = matching_run(index, self.chosen, from_seq=self.next_seq, to_seq=durable, limit=limit)
        if not found:
            self._count_new()
            self.next_seq = durable + 1
        return found

    def passed(self, seqs: list[int]) -> None:
        """Move behind delivered sequences: a prefix of :meth:`upcoming`, but for removed ones."""
        if not seqs:
            return
        self._count_new()
        last = seqs[-1]
        if self.skip:
            self.skip = [seq for seq in self.skip if seq > last]
            self.next_seq = self.skip[0] if self.skip else self.skip_until + 1
            if not self.skip:
                self.skip_until = 0
            return
        self._counted = max(0, self._counted - len(seqs))
        self.next_seq = last + 1

    def _count_new(self) -> None:
        """Update the count: by new messages only, unless messages left the stream."""
        stream, index = self._stream, self._stream.index
        removals, durable = stream.removals, stream.durable_seq
        base = self.skip_until + 1 if self.skip else self.next_seq
        if removals != self._removals:
            front_only = self._removals >= 0 and not self.skip and base > index.first_seq and not index.num_deleted
            self._removals = removals
            if not front_only or durable < self._counted_to:
                self.skip = [seq for seq in self.skip if index.live.sid_of(seq) >= 0]
                if self.skip_until and not self.skip:
                    self.next_seq, self.skip_until = self.skip_until + 1, 0
                self._counted, self._counted_to = self._between(base, durable), durable
                return
        if durable > self._counted_to:
            self._counted += self._between(max(base, self._counted_to + 1), durable)
            self._counted_to = durable

    def _between(self, first: int, last: int) -> int:
        if first > last:
            return 0
        index = self._stream.index
        behind = count_matching(index, self.chosen, last + 1) if index.last_seq > last else 0
        return count_matching(index, self.chosen, first) - behind
