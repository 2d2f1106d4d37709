"""SQL shows a bucket's values and its history."""

from collections.abc import Callable

from delta_store.settling.sql_views import query, register
from tests.spark.store import Store

MakeStore = Callable[..., Store]


def test_values_and_history(store: MakeStore) -> None:
    """Deleted keys have no value; the history has what the bucket keeps, settled or not."""
    here = store()
    here.create("KV_CONFIG", subjects=("$KV.CONFIG.>",), max_msgs_per_subject=2)
    for number in range(5):
        here.publish("KV_CONFIG", f"$KV.CONFIG.k{number % 2}", b"%d" % number)
    here.settle()
    here.publish("KV_CONFIG", "$KV.CONFIG.k0", b"", headers=b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n")
    here.commit()
    for _ in range(2):
        values = query(here.spark, here.data, "SELECT * FROM kv_CONFIG ORDER BY key").collect()
        assert [(row.key, row.text, row.revision) for row in values] == [("k1", "3", 4)]
        history = query(here.spark, here.data, "SELECT * FROM kv_CONFIG_history ORDER BY revision").collect()
        assert [(row.key, row.revision, row.operation) for row in history] == [
            ("k1", 2, "PUT"),
            ("k1", 4, "PUT"),
            ("k0", 5, "PUT"),
            ("k0", 6, "DEL"),
        ]
        here.settle()
    assert "KV_CONFIG" in register(here.spark, here.data)
