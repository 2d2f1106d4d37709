"""Rows of ``removed``: what rows evict and remove, and which of them are needed."""

import json

import pyarrow as pa
import pytest

from delta_store.entries import removed_rows
from delta_store.values.records import Position
from delta_store.values.schemas import REMOVED_SCHEMA


def _messages(*rows: tuple[int, int, int, int]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), names=list(removed_rows.MESSAGE_COLUMNS))


def _events(*rows: tuple[object, ...]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), names=list(removed_rows.EVENT_COLUMNS))


def _shown(rows: pa.Table) -> list[tuple[int, ...]]:
    return [tuple(row.values())[1:7] for row in rows.to_pylist()]


def test_a_message_takes_effect_with_itself_and_a_removal_with_the_next_one() -> None:
    """Rows up to a position are known; a removal that only moved the front has no range."""
    found = removed_rows.evictions("S", _messages((1, 3, 1, 30), (1, 4, 0, 40), (2, 1, 9, 50)), version=5)
    assert _shown(found) == [(1, 1, 1, 3, 30, False), (2, 9, 9, 1, 50, False)]
    assert set(found["version"].to_pylist()) == {5}
    later = removed_rows.evictions("S", _messages((1, 3, 1, 30), (1, 5, 2, 40)), version=5, above=Position(1, 3, 7))
    assert _shown(later) == [(1, 2, 2, 5, 40, False)]
    said = json.dumps({"ranges": [[1, 2], [4, 4]], "reason": "purge", "erase": True}).encode()
    front = json.dumps({"ranges": [], "reason": "age", "erase": False}).encode()
    events = _events((1, 4, 2, "remove", 45, said), (1, 4, 3, "remove", 46, front), (1, 4, 4, "stream", 47, b"{}"))
    found = removed_rows.removals("S", events, version=6)
    assert _shown(found) == [(1, 1, 2, 5, 45, True), (1, 4, 4, 5, 45, True)]
    assert set(found["reason"].to_pylist()) == {"purge"}
    assert not len(removed_rows.removals("S", events, version=6, above=Position(1, 4, 2)))


def test_what_is_known_is_not_told_twice() -> None:
    """By sequences and point, whatever version told of it."""
    old = removed_rows.evictions("S", _messages((1, 3, 1, 30)), version=5)
    new = removed_rows.evictions("S", _messages((1, 3, 1, 30), (1, 4, 2, 40)), version=6)
    assert _shown(removed_rows.unknown(new, old)) == [(1, 2, 2, 4, 40, False)]
    assert removed_rows.unknown(new, removed_rows.none()) is new


@pytest.mark.parametrize(("applied", "counts"), [(4, (3, 0, 0)), (5, (1, 1, 1)), (6, (0, 1, 2))])
def test_what_was_deleted_is_told_apart(applied: int, counts: tuple[int, int, int]) -> None:
    """Needed, needed for the past alone, and neither; each keeps its columns."""
    said = json.dumps({"ranges": [[1, 2]], "reason": "delete", "erase": True}).encode()
    rows = removed_rows.joined(
        [
            removed_rows.evictions("S", _messages((1, 3, 1, 30)), version=5),
            removed_rows.removals("S", _events((1, 3, 2, "remove", 31, said)), version=5),
            removed_rows.evictions("S", _messages((1, 4, 2, 40)), version=6),
        ]
    )
    parts = removed_rows.split(rows, applied=applied)
    assert tuple(map(len, parts)) == counts
    assert all(part.schema == REMOVED_SCHEMA for part in parts)
    assert set(removed_rows.until(rows, 99)["until_ns"].to_pylist()) == {99}
