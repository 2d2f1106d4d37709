"""A consumer engine without links, for tests of its decisions."""

from collections.abc import Collection

from consumers.engine.engine import ConsumerEngine
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns


def engine_of(catalog: Catalog, rows: RowColumns, *, listened: Collection[bytes] = ()) -> ConsumerEngine:
    """Return an engine on a catalog; only the subjects in ``listened``, which may change, have interest."""
    return ConsumerEngine(
        catalog,
        interested=lambda subject: subject in listened,
        listened_to=lambda subject, _queue: subject in listened,
        new_id=lambda: "id",
        rows=lambda: rows,
    )
