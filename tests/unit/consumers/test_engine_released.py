"""What the engine takes for durable."""

from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns
from tests.engines import engine_of


def test_rows_of_an_older_stream_make_nothing_durable() -> None:
    """A group of a deleted stream may be released when one of the same name is there: it says nothing of that one."""
    catalog, rows = Catalog(), RowColumns()
    old = catalog.create(StreamConfig("S", ("s",)), now_ns=1, rows=rows)
    engine = engine_of(catalog, rows)
    engine.registry.restore(now_ns=1, rows=rows)
    catalog.delete("S", now_ns=2, rows=rows)
    new = catalog.create(StreamConfig("S", ("s",)), now_ns=3, rows=rows)
    engine.registry.sync_streams(3)
    engine.released({("S", old.stream_id): 1000}, 4)
    assert engine.directory.streams["S"].durable_seq == 0
    engine.released({("S", new.stream_id): 7}, 5)
    assert engine.directory.streams["S"].durable_seq == 7
