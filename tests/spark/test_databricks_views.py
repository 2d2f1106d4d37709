"""The SQL that makes Databricks' views, on Apache Spark."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.store import Store

VIEWS = Path(__file__).resolve().parents[2] / "conf" / "databricks" / "views.sql"


@pytest.mark.slow
def test_views_show_what_streams_show(store: Callable[..., Store]) -> None:
    """Evicted, deleted and purged messages, and those of deleted streams and of older ones of a name, are not there."""
    here = store()
    for name in ("KEPT", "FEW", "GONE", "ANEW"):
        here.create(name, max_msgs_per_subject=2 if name == "FEW" else -1)
        for at in range(9):
            here.publish(name, f"s{at % 3}")
    change = here.catalog
    change.remove("KEPT", 5, now_ns=here.tick(), rows=here.rows)
    change.purge("KEPT", subject="KEPT.s1", now_ns=here.tick(), rows=here.rows)
    change.delete("GONE", now_ns=here.tick(), rows=here.rows)
    change.delete("ANEW", now_ns=here.tick(), rows=here.rows)
    here.create("ANEW")
    here.publish("ANEW", "again")
    here.settle()
    given = {"schema": "spark_catalog.silt_views", "data": str(here.data)}
    text = re.sub(r"^--.*$", "", VIEWS.read_text(), flags=re.MULTILINE)
    bound = re.sub(r":(\w+)", lambda name: f"'{given[name[1]]}'", text)  # with Delta's parser Spark binds none itself
    for statement in filter(None, map(str.strip, bound.split(";"))):
        here.spark.sql(statement)
    shown = here.spark.table("spark_catalog.silt_views.live_messages").orderBy("seq").collect()
    assert {row["stream"] for row in shown} == {"KEPT", "FEW", "ANEW"}
    for name in ("KEPT", "FEW", "ANEW"):
        assert [row["seq"] for row in shown if row["stream"] == name] == here.live(name)
    here.spark.sql("DROP SCHEMA spark_catalog.silt_views CASCADE")
