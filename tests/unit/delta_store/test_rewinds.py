"""Rewinds and undeletes as decisions: what becomes of a stream, and that a replay of the rows agrees."""

import random
from typing import Any

import numpy as np
import pytest

from delta_store.streams import rewinds
from delta_store.streams.catalog import Catalog
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.replay import replay
from delta_store.streams.stream_config_rules import normalise
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, RowColumns
from delta_store.values.stream_message import MessageRun, StreamMessage

NOW_NS = 1_764_000_000_000_000_000
Shown = list[tuple[str, bytes]]


class Stream:
    """A stream with all its messages ever, and what was live after each."""

    def __init__(self, **config: Any) -> None:
        self.catalog, self.rows = Catalog(), RowColumns()
        said = normalise({"name": "S", "subjects": ["s.>"], **config})
        self.state: StreamState = self.catalog.create(said, now_ns=NOW_NS, rows=self.rows)
        self.then: dict[int, list[int]] = {0: []}

    def publish(self, *subjects: str) -> None:
        """Store a message for each subject."""
        for subject in subjects:
            data = f"{subject} {self.state.index.last_seq + 1}".encode()
            sid = self.state.index.table.intern(subject)
            self.state.store((subject, sid, None, data, None), now_ns=NOW_NS, rows=self.rows)
            self.note()

    def note(self) -> None:
        """Remember how it stood right after its last message."""
        self.then.setdefault(self.state.index.last_seq, self.live())

    def live(self) -> list[int]:
        """The live sequences."""
        index = self.state.index
        return index.live.sequences(1, index.last_seq).tolist()

    def messages(self, seqs: list[int]) -> MessageRun:
        """Messages, gone or not."""
        kept = zip(self.rows.seq, self.rows.kind, self.rows.subject, self.rows.ts_ns, self.rows.data, strict=True)
        found = {
            seq: StreamMessage(name, seq, ts, None, data) for seq, kind, name, ts, data in kept if kind == "message"
        }
        return MessageRun.of([found[seq] for seq in seqs])

    def shown(self, seqs: list[int] | None = None) -> Shown:
        """Subjects and payloads, of the live ones by default."""
        return [(one.subject, one.data) for one in self.messages(self.live() if seqs is None else seqs)]

    def rewind(self, up_to_seq: int) -> rewinds.Rewound:
        """Rewind as the gateway does; the stream grows as was said before."""
        past = np.array(self.then[up_to_seq], np.int64)
        gone = rewinds.lost(past, np.array(self.live(), np.int64))
        again = past[past >= gone[0]].tolist() if len(gone) else []
        if self.state.config.max_msgs_per_subject > 0:
            lost = self.messages(gone.tolist())
            ends = zip(lost.subjects, lost.seqs, strict=True)
            behind = rewinds.followers(self.state.index, ends, up_to_seq=up_to_seq)
            again = sorted([*gone.tolist(), *behind.tolist()])
        index, back = self.state.index, self.messages(again)
        wanted = index.bytes + rewinds.growth(index, back, up_to_seq=up_to_seq)
        done = rewinds.rewind(self.state, back, up_to_seq=up_to_seq, now_ns=NOW_NS, rows=self.rows)
        assert index.bytes == wanted
        self.note()
        return done

    def check(self) -> None:
        """A replay gives the same stream."""
        catalog = Catalog()
        replay(catalog, self.rows)
        index, mine = catalog.streams["S"].index, self.state.index
        assert index.live.sequences(1, index.last_seq).tolist() == self.live()
        assert (index.first_seq, index.last_seq, index.msgs, index.bytes, index.num_subjects) == (
            mine.first_seq,
            mine.last_seq,
            mine.msgs,
            mine.bytes,
            mine.num_subjects,
        )
        assert catalog.streams["S"].position == self.state.position


def test_what_came_after_the_point_is_removed_and_not_erased() -> None:
    """One range, whose messages the past still shows; sequences go on."""
    stream = Stream()
    stream.publish("s.a", "s.b", "s.a", "s.c")
    assert stream.rewind(2) == (2, 0, 0)
    stream.publish("s.d")
    assert stream.live() == [1, 2, 5]
    removals = [data for kind, data in zip(stream.rows.kind, stream.rows.data, strict=True) if kind == Kind.REMOVE]
    assert [read_removal(data)[0] for data in removals] == [([(3, 4)], "rewind", False)]
    stream.check()


def test_a_rewind_can_be_rewound() -> None:
    """What it removed comes back in order, as new messages."""
    stream = Stream()
    stream.publish("s.a", "s.b", "s.a", "s.c")
    before = stream.shown()
    stream.rewind(1)
    stream.publish("s.x")
    assert stream.rewind(4) == (1, 3, 0)
    assert stream.shown() == before
    assert stream.live() == [1, 6, 7, 8]
    stream.check()


def test_a_lost_message_keeps_its_place_in_the_order() -> None:
    """Those behind it are written anew behind it; those in front stay where they are."""
    stream = Stream()
    stream.publish("s.a", "s.b", "s.c", "s.d")
    stream.catalog.remove("S", 2, now_ns=NOW_NS, rows=stream.rows, erase=False)
    assert stream.rewind(4) == (0, 1, 2)
    assert stream.live() == [1, 5, 6, 7]
    assert [name for name, _ in stream.shown()] == ["s.a", "s.b", "s.c", "s.d"]
    stream.check()


def test_where_subjects_have_a_limit_only_they_are_written_anew() -> None:
    """A bucket's other keys keep their revisions."""
    stream = Stream(max_msgs_per_subject=2)
    stream.publish("s.a", "s.b", "s.a", "s.c", "s.b")
    stream.publish("s.a")
    assert stream.rewind(5) == (1, 1, 1)
    assert stream.live() == [2, 4, 5, 7, 8]
    assert stream.shown([7, 8]) == [("s.a", b"s.a 1"), ("s.a", b"s.a 3")]
    stream.check()


def test_lost_messages_come_back_as_new_ones() -> None:
    """Limits apply to them as to any."""
    stream = Stream(max_msgs=3)
    stream.publish("s.a", "s.b", "s.c", "s.d")
    rewinds.bring_back(stream.state, stream.messages([1]), now_ns=NOW_NS, rows=stream.rows)
    assert stream.live() == [3, 4, 5]
    assert stream.shown([5]) == [("s.a", b"s.a 1")]
    rewinds.bring_back(stream.state, MessageRun.of(()), now_ns=NOW_NS, rows=stream.rows)
    stream.check()


def test_consumers_that_have_seen_more_are_named() -> None:
    """In order of their names."""
    assert rewinds.broken_by([("z", 9), ("a", 6), ("m", 5)], up_to_seq=5) == ["a", "z"]


@pytest.mark.parametrize("seed", range(30))
def test_any_point_can_be_gone_back_to(seed: int) -> None:
    """After random publishes, deletes, purges and rewinds: the same messages, in order (of each subject at least)."""
    dice = random.Random(seed)
    limits = dice.choice(({}, {"max_msgs": 9}, {"max_msgs_per_subject": 1}, {"max_msgs_per_subject": 3}))
    stream = Stream(**limits)
    for _ in range(60):
        chance = dice.random()
        if chance < 0.7:
            stream.publish(*(f"s.{dice.randrange(4)}" for _ in range(dice.randrange(1, 4))))
        elif chance < 0.85 and stream.live():
            stream.catalog.remove("S", dice.choice(stream.live()), now_ns=NOW_NS, rows=stream.rows, erase=False)
        else:
            point = dice.choice(sorted(stream.then))
            wanted, live = stream.shown(stream.then[point]), stream.live()
            done = stream.rewind(point)
            assert len(live) - done.removed + done.restored == len(wanted)
            assert sorted(stream.shown()) == sorted(wanted)
            subjects = {name for name, _ in wanted}
            whole = "max_msgs_per_subject" not in limits
            for chosen in [subjects] if whole else [{name} for name in subjects]:
                assert [one for one in stream.shown() if one[0] in chosen] == [
                    one for one in wanted if one[0] in chosen
                ]
    stream.check()
