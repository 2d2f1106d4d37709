"""What Spark's views cost beside plain Delta: the same questions on the same files, on a session that runs already.

The plain view is the table of settled messages by its partitions, with no rule of what is live. A view of Silt's has
the rules that the store needs: none in this one, where nothing was removed. Registering the views anew, which brings
them up to date, is measured apart. Questions are asked in turn of both, after a few that are not counted.
"""

import shutil
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from delta_store.settling.spark_session import open_session
from delta_store.settling.sql_views import register
from tests.benchmarks.report import Runs
from tests.benchmarks.sql import SUBJECTS, write_store

_QUESTIONS: Final = {
    "count": "SELECT count(*) FROM {view}",
    "group": "SELECT subject, count(*) AS n FROM {view} GROUP BY subject",
    "last": "SELECT subject, max(seq), max_by(data, seq) FROM {view} GROUP BY subject",
    "payload": "SELECT count(*), sum(length(data)) FROM {view} WHERE seq % 2 = 0",
}
_VIEWS: Final = {"silt": "S", "plain Delta": "plain"}
_UNCOUNTED: Final = 3
_PLAIN: Final = "stream = 'S' AND subject_partition NOT IN ('$events', '$consumers')"


def view_times(folder: Path, *, messages: int, repetitions: int) -> Runs:
    """Messages a second, in the shape of ``report.Runs``."""
    runs: Runs = {name: {} for name in _VIEWS}
    spark = open_session("bench", master="local[2]", spark__driver__memory="2g")
    try:
        for subjects in SUBJECTS:
            data = folder / f"views-{subjects}"
            shutil.rmtree(data, ignore_errors=True)
            write_store(data, messages=messages, subjects=subjects)
            _measure(spark, data, f"{messages / 1e6:g}M/{subjects}", repetitions, runs, messages)
            shutil.rmtree(data)
    finally:
        spark.stop()
    return runs


def _measure(spark: SparkSession, data: Path, shape: str, repetitions: int, runs: Runs, messages: int) -> None:
    spark.read.format("delta").load(str(data / "messages")).where(_PLAIN).createOrReplaceTempView("plain")
    for turn in range(_UNCOUNTED + repetitions):
        began = time.perf_counter()
        register(spark, data, asked="SELECT * FROM S")
        times = {("silt", "register"): time.perf_counter() - began}
        for question, text in _QUESTIONS.items():
            for contender, view in _VIEWS.items():
                began = time.perf_counter()
                spark.sql(text.format(view=view)).toArrow()
                times[contender, question] = time.perf_counter() - began
        if turn >= _UNCOUNTED:
            for (contender, question), seconds in times.items():
                entry = {"rate": messages / seconds, "seconds": seconds}
                runs[contender].setdefault(f"spark view {question}, {shape}", []).append(entry)
