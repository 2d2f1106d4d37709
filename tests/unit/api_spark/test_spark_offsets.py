"""Offsets of streaming reads: every message is in one batch, whatever is repeated after a restart."""

import json
import random

import pytest

from api.spark.offsets import BatchStep, Offset, Place, advanced, initial, steps


def ends(**seqs: int) -> dict[str, Place]:
    """Streams that reach these sequences, each of one incarnation."""
    return {name: Place(7, seq) for name, seq in seqs.items()}


def read(start: Offset, end: Offset) -> dict[str, range]:
    """The sequences that a batch reads, of a start and an end that went through a checkpoint."""
    found = steps(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
    return {step.stream: range(step.after + 1, step.last + 1) for step in found}


def test_batches_follow_each_other() -> None:
    """Every sequence is read once, in as many batches as maxMessagesPerTrigger makes."""
    dice = random.Random(1)
    start: Offset = initial(ends(A=3, B=0))
    reached, seen = {"A": 3, "B": 0}, {"A": [], "B": []}
    for _ in range(50):
        reached = {name: seq + dice.randrange(9) for name, seq in reached.items()}
        end = advanced(start, ends(**reached), most=dice.choice([None, 1, 5]))
        for name, seqs in read(start, end).items():
            seen[name] += seqs
        start = end
    end = advanced(start, ends(**reached), most=None)
    for name, seqs in read(start, end).items():
        seen[name] += seqs
    assert seen == {"A": list(range(4, reached["A"] + 1)), "B": list(range(1, reached["B"] + 1))}


def test_nothing_new_is_the_same_offset() -> None:
    """Spark runs no batch where the offset is the one it has, letter by letter."""
    start = advanced(initial(ends(A=3)), ends(A=5), most=None)
    again = advanced(json.loads(json.dumps(start)), ends(A=5), most=10)
    assert json.dumps(again) == json.dumps(start)


def test_the_first_batch_begins_where_it_began() -> None:
    """A first batch that is planned again is the same one, though a query that began at the end begins further on."""
    end = advanced(initial(ends(A=3, B=0)), ends(A=5, B=2), most=None)
    later = initial(ends(A=90, B=2))
    assert read(later, end) == {"A": range(4, 6), "B": range(1, 3)}
    following = advanced(end, ends(A=90, B=2), most=None)
    assert read(end, following) == {"A": range(6, 91)}


def test_a_first_batch_that_was_empty_keeps_its_beginning() -> None:
    """A query that began at the end, and had nothing to read before it broke off, misses nothing that came since."""
    empty = initial(ends(A=3))
    assert read(initial(ends(A=90)), empty) == {}
    assert read(empty, advanced(empty, ends(A=90), most=None)) == {"A": range(4, 91)}


def test_an_end_before_its_start_is_refused() -> None:
    """A checkpoint never goes back."""
    start = advanced(initial(ends(A=3)), ends(A=50), most=None)
    with pytest.raises(ValueError, match="a batch from sequence 50 on ends at 10"):
        steps(start, advanced(initial(ends(A=3)), ends(A=10), most=None))


def test_a_message_limit_is_shared_by_what_waits() -> None:
    """Streams get their share of a batch by the messages that wait in them, and one at least."""
    end = advanced(initial(ends(A=0, B=0)), ends(A=900, B=100, C=1), most=100)
    assert {name: len(seqs) for name, seqs in read(initial(ends(A=0, B=0)), end).items()} == {"A": 89, "B": 9, "C": 1}


def test_a_stream_created_anew_is_read_from_its_beginning() -> None:
    """Its step tells which incarnation was read before, so that the loss is noticed."""
    start = advanced(initial(ends(A=3)), ends(A=5), most=None)
    end = advanced(start, {"A": Place(8, 2)}, most=None)
    assert steps(start, end) == [BatchStep("A", 8, 0, 2, 7)]


def test_a_stream_that_appears_later_is_read_whole() -> None:
    """A stream that the start does not know has no incarnation before."""
    start = advanced(initial(ends(A=3)), ends(A=5), most=None)
    assert steps(start, advanced(start, ends(A=5, N=4), most=None)) == [BatchStep("N", 7, 0, 4, None)]
