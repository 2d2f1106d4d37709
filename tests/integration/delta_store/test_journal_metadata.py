"""What is kept of journal files is what each of them says, whichever are asked for, however they were put together."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from delta_store.entries.settled_log import DataFile
from delta_store.reading.journal_metadata import JournalMetadata, MetadataTables
from delta_store.reading.journal_tail import JournalTail
from tests.groups import columns, event, message, open_journal

FILES = 140


@pytest.fixture(scope="module")
def tail(tmp_path_factory: pytest.TempPathFactory) -> JournalTail:
    """Files of one to forty rows of two streams, some with events."""
    folder = tmp_path_factory.mktemp("journal")
    journal = open_journal(folder)
    seq = 1
    for number in range(FILES):
        rows = [message(seq + place, stream="AB"[place % 2]) for place in range(40 if number % 20 == 7 else 1)]
        journal.commit(columns([*rows, event(seq, number + 1, stream="A")] if number % 9 == 4 else rows))
        seq += len(rows)
    tail = JournalTail(str(folder))
    tail.refresh()
    return tail


def _rows(found: list[MetadataTables], part: int, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    tables = [one[part] for one in found if one[part] is not None]
    return sorted(row for table in tables for row in zip(*(table[name].to_pylist() for name in names), strict=True))


def _same(found: list[MetadataTables], alone: list[MetadataTables]) -> None:
    for part, last in ((0, "subject"), (1, "data")):
        names = ("stream", "seq", "event_no", "kind", "first_seq", last)
        assert _rows(found, part, names) == _rows(alone, part, names)


def _alone(tail: JournalTail, files: list[DataFile]) -> list[MetadataTables]:
    return [one for file in files for one in JournalMetadata(tail.files, tail.path_of).of([file])]


@pytest.mark.parametrize(("small_rows", "rows_max"), [(1_024, 1_000_000), (30, 1_000_000), (8, 300)])
def test_any_files_give_what_they_give_alone(
    tail: JournalTail, monkeypatch: pytest.MonkeyPatch, small_rows: int, rows_max: int
) -> None:
    """Again and again, with files gone and others come, and more of them than are kept."""
    monkeypatch.setattr("delta_store.reading.journal_metadata._SMALL_ROWS", small_rows)
    monkeypatch.setattr("delta_store.reading.journal_metadata._ROWS_MAX", rows_max)
    dice = random.Random(small_rows)
    files = list(tail.snapshot.files.values())
    kept = JournalMetadata(tail.files, tail.path_of)
    for _ in range(12):
        start = dice.randrange(FILES)
        chosen = dice.choice((files[start:], files[start : start + 70], dice.sample(files, 20), files, []))
        _same(kept.of(chosen), _alone(tail, chosen))


def test_many_small_files_are_few_tables(tail: JournalTail) -> None:
    """Asked for one by one, as they come, or all at once."""
    files = list(tail.snapshot.files.values())
    kept = JournalMetadata(tail.files, tail.path_of)
    for stop in range(1, FILES + 1):
        found = kept.of(files[:stop])
    assert len(found) < FILES / 2
    _same(found, _alone(tail, files))
    assert len(JournalMetadata(tail.files, tail.path_of).of(files)) < FILES / 20


def test_threads_share_what_is_kept(tail: JournalTail) -> None:
    """Several readers at once each get their files' rows, each row once."""
    files = list(tail.snapshot.files.values())
    kept = JournalMetadata(tail.files, tail.path_of)
    parts = [files[start : start + 90] for start in range(0, 50, 5)]
    with ThreadPoolExecutor(4) as threads:
        for part, found in zip(parts * 3, threads.map(kept.of, parts * 3), strict=True):
            _same(found, _alone(tail, part))
