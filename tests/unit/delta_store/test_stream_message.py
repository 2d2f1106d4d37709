"""Runs of messages put together."""

from delta_store.values.stream_message import MessageRun, StreamMessage, joined, merged


def test_runs_become_one() -> None:
    """In their order, or merged by sequence, each once; nothing becomes an empty run."""
    first, second = (
        MessageRun.of([StreamMessage("s", seq, seq, None, b"") for seq in seqs]) for seqs in ((1, 4), (2, 4, 5))
    )
    assert list(joined([first, second]).seqs) == [1, 4, 2, 4, 5]
    assert list(merged([first, second]).seqs) == [1, 2, 4, 5]
    assert list(merged([second]).seqs) == [2, 4, 5]
    assert (list(joined([])), list(merged([]))) == ([], [])
