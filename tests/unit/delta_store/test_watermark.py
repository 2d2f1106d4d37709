"""What a batch adds is decided from positions alone, and never so that a row is lost or doubled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.values.records import Position
from delta_store.values.watermark import Care, Claim, CommitNote, Op, Run, Watermark, advance, care_for, is_settled

MARK = Watermark(stream_id=10, seq=5, event_no=2, first_seq=3)


def run_of(seqs: list[int], *, stream_id: int = 10, event_no: int = 2) -> Run:
    """A run of message rows with these sequences."""
    ends = (min(seqs), event_no), (max(seqs), event_no)
    return Run("A", stream_id, len(seqs), min(seqs), max(seqs), *ends, last_first_seq=4)


def test_note_round_trip() -> None:
    """The persisted form keeps all, has the agreed field names, and is refused when any digit of it changes."""
    note = CommitNote(Op.APPEND, {"ü": MARK}, 7, Claim(12, {"ü": 4}, left_out=1))
    assert CommitNote.from_json(note.as_json()) == note
    older = '{"op":"append","batch":7,"watermarks":{"\\u00fc":{"id":10,"seq":5,"event":2,"first":3}}}'
    assert CommitNote.from_json(older) == CommitNote(Op.APPEND, {"ü": MARK}, 7)
    assert note.as_json() == (
        f'{older[:-1]},"rows":12,"added":{{"\\u00fc":4}},"left_out":1,"repeats":0,"crc":"{note.as_json()[-10:-2]}"}}'
    )
    for place, digit in enumerate(note.as_json()):
        if digit.isdigit():
            altered = note.as_json()[:place] + str((int(digit) + 1) % 10) + note.as_json()[place + 1 :]
            with pytest.raises(ValueError, match=r"checksum|JSON|escape|delimiter"):
                CommitNote.from_json(altered)
    with pytest.raises(ValueError, match="nonsense"):
        CommitNote.from_json('{"op":"nonsense","watermarks":{}}')


@pytest.mark.parametrize(
    ("position", "settled"),
    [((10, 5, 2), True), ((10, 5, 3), False), ((10, 6, 0), False), ((9, 99, 9), True), ((11, 0, 1), False)],
)
def test_is_settled(position: tuple[int, int, int], *, settled: bool) -> None:
    """Order is by incarnation, then sequence, then event."""
    assert is_settled(Position(*position), MARK) is settled
    assert not is_settled(Position(*position), None)


@pytest.mark.parametrize(
    ("run", "care"),
    [
        (run_of([6, 7]), Care.AS_IT_IS),
        (run_of([4, 5]), Care.NOTHING_NEW),
        (run_of([5, 6]), Care.SIFT),
        (run_of([7, 8]), Care.SIFT),
        (run_of([6, 6, 7]), Care.SIFT),
        (run_of([6, 8]), Care.SIFT),
        (run_of([1, 2], stream_id=11), Care.AS_IT_IS),
        (run_of([2, 3], stream_id=11), Care.SIFT),
        (Run("A", 10, 0, 0, 0, (5, 3), (5, 3), 4), Care.AS_IT_IS),
        (Run("A", 10, 0, 0, 0, (6, 3), (6, 3), 4), Care.SIFT),
        (run_of([1]), Care.NOTHING_NEW),
    ],
)
def test_care_for(run: Run, care: Care) -> None:
    """Only a run that goes on exactly where the watermark stands is taken unseen."""
    assert care_for([run], {"A": MARK}) is care


@given(st.lists(st.integers(1, 12), min_size=1, max_size=14), st.integers(0, 6))
def test_nothing_unclean_is_taken_as_it_is(seqs: list[int], settled: int) -> None:
    """A batch without a duplicate-and-gap at once is taken unseen exactly when it is the next rows, each once."""
    mark = {"A": Watermark(10, settled, 2, 1)} if settled else {}
    clean = sorted(seqs) == list(range(settled + 1, settled + len(seqs) + 1))
    doubled_and_missing = len(set(seqs)) < len(seqs) == max(seqs) - min(seqs) + 1
    if not doubled_and_missing:
        assert (care_for([run_of(seqs)], mark) is Care.AS_IT_IS) is clean


def test_advance() -> None:
    """Watermarks move on to a run's last row, over incarnations, and never back."""
    marks = advance({"A": MARK}, [run_of([1, 2], stream_id=11), run_of([6, 7]), run_of([1], stream_id=9)])
    assert marks == {"A": Watermark(11, 2, 2, 4)}
    assert advance({"A": MARK}, [run_of([3, 4])]) == {"A": MARK}
