"""Which statements a session's fence lets through."""

import pytest

from delta_store.sql.fence import BeyondFence, Fence


def shut(**streams: str) -> Fence:
    """A fence around a statement that reads these files, each a letter, of streams."""
    fence = Fence()
    for stream, files in streams.items():
        fence.let(stream, files)
    assert fence.shut()
    return fence


def test_a_statement_that_reads_the_same_streams_fits() -> None:
    """With as many files or fewer, and streams that have none; the fence stays as it was."""
    fence = shut(S="abc", T="d")
    for streams in ({"S": "abc", "T": "d"}, {"S": "a", "T": ""}, {"S": "", "T": "d", "U": ""}):
        for stream, files in streams.items():
            fence.let(stream, files)
        assert not fence.shut()
    assert fence.files == set("abcd")


def test_files_outside_do_not_fit() -> None:
    """Nothing is let in once it is shut."""
    fence = shut(S="ab")
    with pytest.raises(BeyondFence):
        fence.let("S", "ac")
    assert fence.files == set("ab")


def test_a_statement_does_not_stand_beside_files_of_others() -> None:
    """One that reads fewer streams than there are inside may not be allowed to read the rest."""
    fence = shut(S="a", T="b")
    fence.let("S", "a")
    with pytest.raises(BeyondFence):
        fence.shut()
