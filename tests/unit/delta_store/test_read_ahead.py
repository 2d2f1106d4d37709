"""Reading on is noticed, reading about is not, and memory stays bounded."""

from delta_store.reading.read_ahead import AHEAD_BYTES, AHEAD_MESSAGES, ReadAhead
from delta_store.values.stream_message import StreamMessage


def messages(*seqs: int, size: int = 10) -> dict[int, StreamMessage]:
    """What a fetch of these sequences found."""
    return {seq: StreamMessage("s", seq, seq, None, b"x" * size) for seq in seqs}


def test_the_first_read_reads_nothing_further() -> None:
    """One message asked for is one message read."""
    assert not ReadAhead().further(1, [5])


def test_the_next_one_reads_on() -> None:
    """A stream read in ascending order gets what follows, and finds it here afterwards."""
    ahead = ReadAhead()
    ahead.keep(1, messages(5))
    further = ahead.further(1, [6])
    assert (further.start, len(further)) == (7, AHEAD_MESSAGES)
    assert not ahead.further(2, [6])
    ahead.keep(1, messages(6, 7, 9))
    assert [one.seq for one in ahead.run(1, [6, 7, 8, 9])] == [6, 7]
    found = ahead.get(1, 9)
    assert found is not None
    assert found.seq == 9
    assert ahead.get(1, 5) is None


def test_reading_about_does_not_read_on() -> None:
    """Backwards, far ahead or the same again is no reading on."""
    ahead = ReadAhead()
    ahead.keep(1, messages(500))
    for seq in (400, 500, 5_000):
        assert not ahead.further(1, [seq])


def test_large_messages_are_read_ahead_by_bytes() -> None:
    """A few large messages are as much as many small ones, and too many of them are not kept at all."""
    ahead = ReadAhead()
    ahead.keep(1, messages(1, size=AHEAD_BYTES // 4))
    assert len(ahead.further(1, [2])) == 3
    ahead.keep(1, messages(1, 2, 3, size=AHEAD_BYTES))
    assert ahead.get(1, 2) is None


def test_few_streams_are_kept() -> None:
    """The stream that was read longest ago is forgotten."""
    ahead = ReadAhead()
    for stream_id in range(20):
        ahead.keep(stream_id, messages(1))
    assert ahead.get(0, 1) is None
    assert not ahead.further(0, [2])
    assert ahead.get(19, 1) is not None
