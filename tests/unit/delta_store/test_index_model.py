"""The stream index beside a plain dict: additions, removals and every question, over many segments."""

from collections.abc import Sequence
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from delta_store.index.index_copy import IndexCopy
from delta_store.index.matching import (
    count_matching,
    iter_matching,
    last_by_subject,
    last_per_subject,
    next_matching,
    subjects_matching,
)
from delta_store.index.segments import SEGMENT_SLOTS
from delta_store.index.stream_index import StreamIndex
from delta_store.streams import retention
from delta_store.values.read_errors import TooMany
from delta_store.values.subjects import SubjectFilter, matches

NAMES = ("a", "b", "a.x", "a.y", "b.x", "a.x.1", "c.d.e.f")
FILTERS = (("a",), ("a.*",), ("*.x",), ("a.>",), (">",), ("a", "b.*"), ("a.x", "b"), ("nothing",), ("*", "*.*"))
PARTS = st.integers(-3, 103).map(lambda percent: percent / 100)
GAPS = st.sampled_from([1, 1, 1, 1, 2, 7, 300, SEGMENT_SLOTS - 3, 3 * SEGMENT_SLOTS])


class Indexing(RuleBasedStateMachine):
    """An index and the messages it should hold: sequence → (subject, time, size)."""

    def __init__(self) -> None:
        super().__init__()
        self.index = StreamIndex()
        self.held: dict[int, tuple[str, int, int]] = {}
        self.last = 0
        self.clock = 0

    @initialize(chained=st.booleans(), runs=st.lists(st.integers(1, 300), max_size=4))
    def start(self, chained: bool, runs: list[int]) -> None:
        """With chains or without, and with a few segments."""
        self.index = StreamIndex(chained=chained)
        for number in runs:
            self._add(NAMES, number, gap=SEGMENT_SLOTS - 100, spread=3)

    def _place(self, part: float) -> int:
        """A sequence at or next to a live one, or outside of all."""
        live = sorted(self.held)
        if not 0 <= part <= 1 or not live:
            return max(0, int(part * (self.last + 2)))
        return max(0, live[int(part * (len(live) - 1))] + round(part * 100) % 3 - 1)

    @rule(subject=st.sampled_from(NAMES), gap=GAPS)
    def append(self, subject: str, gap: int) -> None:
        """One message, as far behind the last as a replay of what is left may have it."""
        self.last += gap
        self.clock += 10
        self.index.append(self.last, self.index.table.intern(subject), ts_ns=self.clock, size=len(subject))
        self.held[self.last] = (subject, self.clock, len(subject))

    @rule(
        pattern=st.lists(st.sampled_from(NAMES), min_size=1, max_size=9),
        number=st.integers(1, 400),
        gap=GAPS,
        spread=st.integers(1, 7),
    )
    def append_run(self, pattern: list[str], number: int, gap: int, spread: int) -> None:
        """Many messages, in neighbouring sequences or with holes."""
        self._add(pattern, number, gap=gap, spread=spread)

    def _add(self, pattern: Sequence[str], number: int, *, gap: int, spread: int) -> None:
        subjects = [pattern[place % len(pattern)] for place in range(number)]
        steps = np.cumsum([1 if (place * 7) % 5 else spread for place in range(number)])
        seqs = self.last + gap + steps - steps[0]
        times = np.arange(self.clock + 10, self.clock + 10 * number + 1, 10)
        sids = np.array([self.index.table.intern(subject) for subject in subjects])
        sizes = np.array([len(subject) for subject in subjects])
        self.index.append_run(seqs, sids=sids, ts_ns=times, sizes=sizes)
        for seq, subject, ts in zip(seqs.tolist(), subjects, times.tolist(), strict=True):
            self.held[seq] = (subject, ts, len(subject))
        self.last, self.clock = int(seqs[-1]), int(times[-1])

    @rule(part=PARTS, number=st.integers(1, 5))
    def remove(self, part: float, number: int) -> None:
        """Single messages; what is not there is not removed."""
        live = sorted(self.held)
        at = max(0, int(part * len(live)))
        for seq in [*live[at : at + number], self.last + 1, (live[0] if live else 1) - 1]:
            assert self.index.remove(seq) == (self.held.pop(seq, None) is not None)

    @rule(low=PARTS, high=PARTS, every=st.integers(1, 3))
    def remove_many(self, low: float, high: float, every: int) -> None:
        """A stretch of messages, or every other one of it."""
        live = sorted(self.held)
        first, last = sorted((max(0, int(low * len(live))), max(0, int(high * len(live)))))
        gone = live[first:last:every]
        self.index.remove_many(np.array(gone, np.int64))
        for seq in gone:
            del self.held[seq]

    @rule(part=PARTS)
    def advance_first(self, part: float) -> None:
        """Everything in front of a sequence."""
        bound = self._place(part)
        gone = [seq for seq in self.held if seq < bound]
        assert self.index.advance_first(bound) == len(gone)
        for seq in gone:
            del self.held[seq]

    @rule(limit=st.integers(1, 3))
    def limit_subjects(self, limit: int) -> None:
        """The oldest messages of each subject that has too many."""
        if not self.held:
            return
        surplus = retention.over_subject_limit(limit, self.index).tolist()
        wanted = []
        for subject in NAMES:
            mine = [seq for seq in sorted(self.held) if self.held[seq][0] == subject]
            wanted += mine[: max(0, len(mine) - limit)]
        assert surplus == sorted(wanted)
        self.index.remove_many(np.array(surplus, np.int64))
        for seq in surplus:
            del self.held[seq]

    @rule()
    def chain_up(self) -> None:
        """Chains are wanted from now on."""
        self.index.chain_up()

    @rule()
    def renumber(self) -> None:
        """Subject ids are given anew."""
        moved = self.index.table.renumber()
        for segment in self.index.live.segments.values():
            segment.sid = moved[segment.sid]

    @rule(part=PARTS, chained=st.booleans())
    def copy(self, part: float, chained: bool) -> None:
        """A copy of what there is up to a sequence goes on in the place of the index, which goes on as well."""
        place = min(self._place(part), self.last)
        origin, copy = self.index, IndexCopy(self.index, place, StreamIndex(chained=chained))
        while copy.step():
            pass
        assert copy.holds
        held = {seq: one for seq, one in self.held.items() if seq <= place}
        copy.fill()
        self.index = copy.index
        self.index.restore_bounds(first_seq=0, last_seq=place, last_ts=self.clock)
        origin.append(self.last + 1, origin.table.intern("new"), ts_ns=self.clock + 10, size=3)
        assert copy.holds
        assert origin.advance_first(place + 1) == len(held)
        assert copy.holds == (not held)
        self.held, self.last = held, place

    @invariant()
    def same_totals(self) -> None:
        """The state that stream info shows."""
        index, live = self.index, sorted(self.held)
        assert index.msgs == len(live)
        assert index.bytes == sum(size for _, _, size in self.held.values())
        assert index.first_seq == (live[0] if live else self.last and self.last + 1)
        assert index.last_seq == self.last
        assert index.first_ts == (self.held[live[0]][1] if live else 0)
        assert index.num_subjects == len({subject for subject, _, _ in self.held.values()})
        assert index.live.keys == sorted(index.live.segments)
        assert all(segment.live for segment in index.live.segments.values())

    @rule(part=PARTS, names=st.sampled_from(FILTERS))
    def ask(self, part: float, names: tuple[str, ...]) -> None:
        """What a filter finds from a sequence on, and how much of it there is."""
        index, seq = self.index, self._place(part)
        chosen = SubjectFilter(names)
        found = [one for one in sorted(self.held) if any(matches(name, self.held[one][0]) for name in names)]
        behind = [one for one in found if one >= seq]
        assert list(iter_matching(index, chosen, seq)) == behind
        assert next_matching(index, chosen, seq) == (behind[0] if behind else 0)
        assert count_matching(index, chosen, seq) == len(behind)
        assert list(iter_matching(index, None, seq)) == [one for one in sorted(self.held) if one >= seq]
        assert count_matching(index, None, seq) == sum(one >= seq for one in self.held)
        counts: dict[str, int] = {}
        for one in found:
            counts[self.held[one][0]] = counts.get(self.held[one][0], 0) + 1
        assert subjects_matching(index, chosen) == counts
        for bound in (None, seq):
            lasts = {self.held[one][0]: one for one in found if bound is None or one <= bound}
            assert last_per_subject(index, chosen, bound) == sorted(lasts.values())
            if lasts:
                with pytest.raises(TooMany):
                    last_per_subject(index, chosen, bound, limit=len(lasts) - 1)

    @rule(part=PARTS)
    def ask_bounds(self, part: float) -> None:
        """Single sequences, times, holes, and each subject's ends."""
        index, live = self.index, sorted(self.held)
        seq = self._place(part)
        held = self.held.get(seq)
        assert (index.subject_of(seq), index.live.ts_of(seq), index.live.size_of(seq)) == (held or (None, 0, 0))
        time = int(part * (self.clock + 10))
        assert index.seq_at_time(time) == next((one for one in live if self.held[one][1] >= time), self.last + 1)
        assert index.live.sequences(seq, seq + 5000).tolist() == [one for one in live if seq <= one <= seq + 5000]
        holes = [b for a, c in pairwise(live) for b in range(a + 1, min(c, a + 60))] if live else []
        holes += list(range(live[-1] + 1, min(self.last, live[-1] + 60) + 1)) if live else []
        assert index.deleted(limit=50) == holes[:50]
        assert index.num_deleted == (self.last - live[0] + 1 - len(live) if live else 0)
        for subject in NAMES:
            mine = [one for one in live if self.held[one][0] == subject]
            assert last_by_subject(index, subject) == (mine[-1] if mine else 0)
            sid = index.table.intern(subject)
            assert index.ends.first(sid) == (mine[0] if mine else 0)
            assert index.ends.firsts(sid, 4) == mine[:4]
        front, sizes = index.live.head(3, 10)
        assert front.tolist() == live[: len(front)]
        assert len(front) == len(live) or (len(front) >= 3 and int(sizes.sum()) >= 10)


TestIndexing = Indexing.TestCase
TestIndexing.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
