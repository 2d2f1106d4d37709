"""Paths of staged files: any stream and subject has a folder on any file system, and a file names its owner's epoch."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.entries.staged_file import Writing, staged_epoch, staged_path

_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)


@given(stream=_NAMES, subject=_NAMES, epoch=st.integers(0, 999_999), batch=st.integers(0, 10**12 - 1))
def test_every_name_has_a_folder(stream: str, subject: str, epoch: int, batch: int) -> None:
    """Two folders and a file, each short enough, in characters that need no care; the epoch comes back."""
    path = staged_path(Writing(epoch, batch), stream, subject, number=3, unique="0f" * 8)
    folders = path.split("/")
    assert len(folders) == 3
    assert all(len(name.encode()) <= 240 and name.isascii() and name.isprintable() for name in folders)
    assert staged_epoch(path) == epoch
    for folder, column, value in zip(folders, ("stream", "subject_partition"), (stream, subject), strict=False):
        name, _, told = folder.partition("=")
        assert name == column
        assert unquote(told) == value or len(told) == 64


def test_long_names_have_folders_of_their_own() -> None:
    """Two streams that differ in their last letter alone share no folder; usual names are to be read."""
    one, other = (staged_path(Writing(1, 1), "é" * 200 + end, "a", number=0, unique="x") for end in "ab")
    assert one != other
    assert staged_path(Writing(7, 12), "ORDERS", "$events", number=0, unique="ab") == (
        "stream=ORDERS/subject_partition=$events/part-000007-000000000012-00000-ab.parquet"
    )


@pytest.mark.parametrize(
    "path",
    [
        "stream=S/subject_partition=a/part-00000-8a3f6e0c-7c1b-4d55-9f0e-2a1b3c4d5e6f.c000.snappy.parquet",
        "stream=S/subject_partition=a/part-00000-00000000-0000-0000-0000-000000000000.c000.snappy.parquet",
        "aB/part-00001-8a3f6e0c-7c1b-4d55-9f0e-2a1b3c4d5e6f-c000.snappy.parquet",
        "0-a-b.parquet",
    ],
)
def test_files_of_other_writers_have_no_epoch(path: str) -> None:
    """Those of Spark and delta-rs are told apart by their names."""
    assert staged_epoch(path) is None
