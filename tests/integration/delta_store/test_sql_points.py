"""At random points of random histories, DuckDB and the readers of the past give what a replay gives."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.sql.sql_engine import SqlEngine
from tests.clocks import FixedClock
from tests.pasts import Pasts, difference, grown
from tests.sql_answers import column_of, engine_on, rows_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POINTS = 5
_CALLS = (
    ("multi_last('S', 's.>', $2)", "subject, seq, time, ts_ns, tokens, msg_id, size"),
    ("diff('S', $1, $2)", "subject, change, seq_before, seq_after, time_before, time_after"),
)
"""Table functions, and the columns for which they need no payload."""


@pytest.mark.parametrize("seed", range(8))
def test_sql_and_the_reader_and_a_replay_agree(tmp_path: Path, seed: int) -> None:
    """Live, as of a sequence, as of a time, the last of each subject, and the difference of two points."""
    dice = random.Random(seed)
    pasts = grown(tmp_path, dice)
    engine = engine_on(tmp_path, clock=FixedClock(pasts.now_ns))
    past = PointInTime(SettledTable(str(tmp_path / "messages")), JournalTail(str(tmp_path / "journal")))
    assert column_of(engine, "SELECT seq FROM S ORDER BY seq") == pasts.live()
    for _ in range(_POINTS):
        low, high = sorted(dice.choices(range(1, pasts.history.seq + 2), k=2))
        _compare(engine, pasts, low, high, pasts.at(low), pasts.at(high))
        for call, columns in _CALLS:
            bare, whole = (f"SELECT {columns} FROM {rows} WHERE $1 + $2 > 0" for rows in (call, f"(FROM {call})"))
            assert rows_of(engine, f"{bare} ORDER BY subject", low, high) == rows_of(
                engine, f"{whole} ORDER BY subject", low, high
            )
        assert [one.seq for one in past.multi_last("S", ["s.>"], up_to_seq=high).messages] == sorted(
            pasts.last(pasts.at(high)).values()
        )
    for row in dice.sample(pasts.history.rows, 2):
        moment = row.ts_ns // 1_000 * 1_000
        time = _EPOCH + timedelta(microseconds=moment // 1_000)
        _compare(engine, pasts, 1, time, pasts.at(1), pasts.before(moment))


def _compare(engine: SqlEngine, pasts: Pasts, first: Any, second: Any, before: list[int], after: list[int]) -> None:
    """Compare one statement over two points with the live sequences at them."""
    found = rows_of(
        engine,
        "SELECT 'a' AS what, seq AS old, NULL AS new, subject FROM as_of('S', $1) UNION ALL"
        " SELECT 'b', seq, NULL, subject FROM as_of('S', $2) UNION ALL"
        " SELECT 'last', seq, NULL, subject FROM multi_last('S', 's.>', $2) UNION ALL"
        " SELECT change, seq_before, seq_after, subject FROM diff('S', $1, $2)",
        first,
        second,
    )
    parts = {name: [row for row in found if row["what"] == name] for name in ("a", "b", "last")}
    assert sorted(row["old"] for row in parts["a"]) == before, first
    assert sorted(row["old"] for row in parts["b"]) == after, second
    assert {row["subject"]: row["old"] for row in parts["last"]} == pasts.last(after), second
    changes = [row for row in found if row["what"] not in parts]
    shown = sorted((row["subject"], row["what"], row["old"], row["new"]) for row in changes)
    assert shown == difference(pasts.last(before), pasts.last(after)), (first, second)
