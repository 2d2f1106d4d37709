"""Spark and DuckDB give the same rows: views, functions, points; one definition stands behind both."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from delta_store.settling.sql_views import query
from tests.pasts import grown
from tests.sql_answers import engine_on, rows_of


def _shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows in any order, with maps as both engines have them."""
    plain = [tuple(sorted(value) if isinstance(value, list) else value for value in row.values()) for row in rows]
    return sorted(plain, key=repr)


@pytest.mark.parametrize("seed", [3, pytest.param(7, marks=pytest.mark.slow)])
def test_both_engines_agree(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """On random histories, settled in part: live, as of a point, the last of each subject, and what changed."""
    dice = random.Random(seed)
    pasts = grown(tmp_path, dice, rounds=5)
    headers = b"NATS/1.0\r\nA: b \r\nA:c\r\nX-Y:\r\n\r\n"
    history = pasts.history
    pasts.tables.commit([history.publish("s.1", b'{"n": 1}', headers=headers), history.publish("s.2", b"\xff\xfe")])
    low, high = sorted(dice.choices(range(1, history.seq + 1), k=2))
    engine = engine_on(tmp_path)
    for statement in (
        "SELECT * FROM S",
        "SELECT name, messages, bytes, subjects, first_seq, last_seq, settled_seq, config FROM silt_streams",
        (
            f"SELECT 'a' AS what, seq, 0 AS new, subject FROM as_of('S', {low})"
            f" UNION ALL SELECT 'last', seq, 0, subject FROM multi_last('S', 's.>', {high})"
            f" UNION ALL SELECT change, seq_before, seq_after, subject FROM diff('S', {low}, {high})"
        ),
    ):
        by_spark: pa.Table = query(spark, tmp_path, statement).toArrow()
        by_duckdb = rows_of(engine, statement)
        assert _shown(by_spark.to_pylist()) == _shown(by_duckdb), statement
