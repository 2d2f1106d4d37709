"""Where a consumer starts, what it counts, and where it stands after resets, new filters and restarts."""

import random
from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_machine import InvalidReset
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.read_position import ReadPosition
from delta_store.index.matching import iter_matching, last_per_subject
from delta_store.values.subjects import SubjectFilter
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, START, Stream, World, seqs


def _stream() -> Stream:
    """Messages 1 to 9 on subjects a, b, c in turn, a second apart."""
    stream = Stream()
    for place in range(9):
        stream.store("abc"[place % 3], now_ns=START + place * SECOND)
    return stream


@pytest.mark.parametrize(
    ("config", "first"),
    [
        ({}, [1, 2, 3]),
        ({"deliver_policy": "last"}, [9]),
        ({"deliver_policy": "last", "filter_subject": "b"}, [8]),
        ({"deliver_policy": "new"}, []),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 7}, [7, 8, 9]),
        ({"deliver_policy": "by_start_time", "opt_start_time": START + 6 * SECOND}, [7, 8, 9]),
        ({"deliver_policy": "last_per_subject", "filter_subjects": ("a", "c")}, [7, 9]),
        ({"filter_subject": "c"}, [3, 6, 9]),
        ({"filter_subjects": ("a", "b")}, [1, 2, 4]),
    ],
)
def test_start(config: dict[str, Any], first: list[int]) -> None:
    """Each deliver policy begins where it says."""
    world = World(_stream(), **config)
    assert seqs(world.pull(b"3")) == first


def test_last_per_subject_goes_on_behind_the_last() -> None:
    """After each subject's last message comes what was stored since, also across a restart."""
    world = World(_stream(), deliver_policy="last_per_subject", filter_subject="*")
    assert world.consumer.num_pending == 3
    world.store("a", "d")
    assert world.consumer.num_pending == 5
    assert seqs(world.pull(b"1")) == [7]
    state = ConsumerState.decode(world.consumer.state().encode())
    again = World(world.stream, state=state, deliver_policy="last_per_subject", filter_subject="*")
    assert again.consumer.num_pending == 4
    assert seqs(again.pull(b"9")) == [8, 9, 10, 11]
    assert again.consumer.state().skip_until == 0


def test_reset_starts_over() -> None:
    """A reset forgets what waits and goes on at the sequence, or behind the ack floor."""
    world = World(_stream())
    world.pull(b"4")
    world.ack(1)
    assert world.consumer.reset(None, world.now) == 2
    assert (world.consumer.delivered, world.consumer.ack_floor) == ((0, 1), (0, 1))
    assert world.consumer.num_pending == 8
    assert world.consumer.reset(6, world.now) == 6
    assert seqs(world.pull(b"9")) == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 5}, "below start seq"),
        ({"deliver_policy": "by_start_time", "opt_start_time": START + 4 * SECOND}, "below start time"),
        ({"deliver_policy": "new"}, "not allowed"),
    ],
)
def test_reset_keeps_to_the_deliver_policy(config: dict[str, Any], text: str) -> None:
    """No reset leads to where the deliver policy would not have started."""
    with pytest.raises(InvalidReset, match=text):
        World(_stream(), **config).consumer.reset(3, START)


def test_a_new_filter_holds_from_here_on() -> None:
    """Another filter changes what comes next and the count, not what waits for its ack."""
    world = World(_stream(), filter_subject="a")
    assert seqs(world.pull(b"1")) == [1]
    world.consumer.reconfigure(MachineConfig(name="C", filter_subject="c", **EXPLICIT), world.now)
    assert world.consumer.num_pending == 3
    assert world.consumer.num_ack_pending == 1
    assert seqs(world.pull(b"9")) == [3, 6, 9]


def test_a_restart_makes_the_pending_wait_anew() -> None:
    """After a restart nothing pending is delivered before a whole wait, and acks still count."""
    world = World(_stream())
    world.pull(b"3")
    world.ack(2)
    state = ConsumerState.decode(world.consumer.state().encode())
    again = World(world.stream, state=state, now=world.now + 20 * SECOND)
    assert again.consumer.num_ack_pending == 2
    assert seqs(again.pull(b"2")) == [4, 5]
    again.ack(1)
    assert again.consumer.ack_floor == (2, 2)
    again.pull(b"9")
    assert seqs(again.pass_time(29)) == []
    assert 3 in seqs(again.pass_time(2))


def test_the_state_is_refused_when_it_is_none() -> None:
    """Bytes that no consumer wrote are refused."""
    good = ConsumerState(pending={5: (1, 2)}, redelivered={5: 1}).encode()
    for bad in (b"", b"SCS1", good[:-8], good + b"x", b"XXXX" + good[4:], good[:4] + b"\xff" * (len(good) - 4)):
        with pytest.raises(ValueError, match="not a consumer's state"):
            ConsumerState.decode(bad)


def test_the_count_follows_every_change() -> None:
    """However messages come, go and are passed, the running count is what counting anew gives."""
    rng = random.Random(7)
    stream = Stream()
    chosen = SubjectFilter(["a", "b.*"])
    positions = [ReadPosition(stream, one, 1) for one in (None, chosen)]
    for _ in range(1500):
        for _ in range(rng.randrange(3)):
            stream.store(rng.choice(["a", "b.1", "b.2", "c"]), durable=rng.random() < 0.7)
        if rng.random() < 0.2 and stream.index.msgs:
            stream.remove(rng.randrange(stream.index.first_seq, stream.index.last_seq + 1))
        if rng.random() < 0.2 and stream.index.msgs:
            stream.index.advance_first(stream.index.first_seq + rng.randrange(3))
        if rng.random() < 0.1:
            stream.durable_seq = stream.index.last_seq
        for position in positions:
            if rng.random() < 0.5:
                position.passed(position.upcoming(rng.randrange(1, 4)))
            left = [
                seq
                for seq in iter_matching(stream.index, position.chosen, position.next_seq)
                if seq <= stream.durable_seq
            ]
            assert position.num_pending == len(left)
            assert position.upcoming(3) == left[:3]


@pytest.mark.parametrize("seed", range(30))
def test_the_list_follows_every_change(seed: int) -> None:
    """A list of each subject's last messages loses what leaves the stream, with holes or at its front."""
    rng = random.Random(seed)
    stream = Stream()
    for _ in range(15):
        stream.store(rng.choice(["a", "c", *(f"b.{number}" for number in range(12))]))
    chosen = rng.choice([None, SubjectFilter(["a", "b.*"])])
    firsts, until = last_per_subject(stream.index, chosen or SubjectFilter.everything()), stream.index.last_seq
    position = ReadPosition(stream, chosen, 1)
    position.start_with(firsts, until)
    reached = 0
    for _ in range(40):
        if rng.random() < 0.3:
            stream.store(rng.choice(["a", "b.1", "c"]))
        if seed % 2 and rng.random() < 0.3 and stream.index.msgs:
            stream.remove(rng.randrange(stream.index.first_seq, stream.index.last_seq + 1))
        if rng.random() < 0.2 and stream.index.msgs:
            stream.index.advance_first(stream.index.first_seq + rng.randrange(4))
        live = list(iter_matching(stream.index, chosen, reached + 1))
        left = [seq for seq in live if seq in firsts or seq > until]
        if rng.random() < 0.5:
            assert position.num_pending == len(left)
        upcoming = position.upcoming(2)
        assert upcoming == left[: len(upcoming)]
        assert bool(upcoming) == bool(left)
        if upcoming and rng.random() < 0.2:
            position.passed(upcoming)
            reached = upcoming[-1]


def test_a_purge_moves_consumers_on() -> None:
    """When everything is purged a consumer stands at the end of the stream, with nothing pending."""
    world = World(_stream())
    world.pull(b"3")
    world.stream.index.advance_first(10)
    world.consumer.stored(world.now)
    assert (world.consumer.delivered, world.consumer.ack_floor) == ((3, 9), (3, 9))
    assert (world.consumer.num_ack_pending, world.consumer.num_pending) == (0, 0)
    world.pull(b"1")
    assert seqs(world.store("a")) == [10]
