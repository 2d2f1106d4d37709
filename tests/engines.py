"""A consumer engine without links, for tests of what is decided in this process."""

from collections.abc import Collection

from consumers.engine.engine import ConsumerEngine
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns


def engine_of(catalog: Catalog, rows: RowColumns, *, listened: Collection[bytes] = ()) -> ConsumerEngine:
    """The consumers of a catalog; somebody listens to just the subjects in ``listened``, which may change."""
    return ConsumerEngine(
        catalog,
        interested=lambda subject: subject in listened,
        listened_to=lambda subject, _queue: subject in listened,
        new_id=lambda: "id",
        rows=lambda: rows,
    )
