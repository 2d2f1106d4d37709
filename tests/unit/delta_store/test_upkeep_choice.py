"""Which files of ``messages`` maintenance takes, from the log's statistics alone."""

import pytest

from delta_store.entries.settled_log import DataFile, data_file
from delta_store.settling import upkeep_choice
from delta_store.settling.upkeep_choice import (
    ROUND_BYTES_MAX,
    SMALL_FILE_BYTES,
    SMALL_FILES_MIN,
    dead_files,
    small_files,
)


def file(
    path: str, partition: str = "b01", *, seqs: tuple[int, int] = (1, 9), size: int = 1, stream: str = "A"
) -> DataFile:
    """A file of incarnation 5 of a stream."""
    low = {"seq": seqs[0], "stream_id": 5}
    high = {"seq": seqs[1], "stream_id": 5}
    return data_file(path, size=size, rows=1, partition=(stream, partition), low=low, high=high)


@pytest.mark.parametrize(
    ("front", "dead"),
    [
        ((5, 9), []),
        ((5, 10), ["messages"]),
        ((6, 0), ["messages", "consumers"]),
        ((4, 99), []),
        (None, []),
    ],
)
def test_dead_files(front: tuple[int, int] | None, dead: list[str]) -> None:
    """Messages below the front; all but events of an older incarnation, nothing of a later one or one unknown."""
    files = [file("messages"), file("consumers", "$consumers"), file("events", "$events")]
    files.append(data_file("unknown", size=1, rows=1, partition=("A", "b01"), low={}, high={}))
    assert [one.path for one in dead_files(files, {"A": front} if front else {})] == dead


def test_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of folders that have many, in order of sequence; recent messages count whatever their size; a round ends."""
    few = [file(f"few{n}", "few") for n in range(SMALL_FILES_MIN - 1)]
    large = [file(f"large{n}", "large", size=SMALL_FILE_BYTES) for n in range(99)]
    many = [file(f"many{n}", "many", seqs=(99 - n, 99)) for n in range(SMALL_FILES_MIN)]
    recent = [file(f"r{n}", "$recent", size=SMALL_FILE_BYTES) for n in range(SMALL_FILES_MIN + 1)]
    assert small_files([*few, *large, *many, *recent]) == [*recent, *reversed(many)]
    assert ROUND_BYTES_MAX > SMALL_FILES_MIN * SMALL_FILE_BYTES
    monkeypatch.setattr(upkeep_choice, "ROUND_BYTES_MAX", 10)
    assert small_files([*few, *large, *many, *recent]) == recent
