"""What the REST API needs of a store; :class:`delta_store.stores.replica.Replica` is one."""

from typing import Protocol

from delta_store.reading.settle_watch import SettleReport
from delta_store.reading.store_reader import StoreReader
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.streams.catalog import Catalog
from delta_store.values.watermark import Watermarks


class RestStore(Protocol):
    """Streams, messages and their past, as of ``journal_version``; the catalog is never kept over an await."""

    @property
    def catalog(self) -> Catalog:
        """The live streams."""

    @property
    def reader(self) -> StoreReader:
        """Their messages and what they held before."""

    @property
    def opened(self) -> bool:
        """Whether there is anything to show yet."""

    @property
    def opening(self) -> OpeningProgress:
        """How far it is until then."""

    @property
    def journal_version(self) -> int:
        """Delta version of the journal that the catalog shows."""

    @property
    def settled_version(self) -> int:
        """Delta version of the settled messages."""

    @property
    def age_seconds(self) -> float:
        """Time since the store looked at the tables."""

    @property
    def watermarks(self) -> Watermarks:
        """The last settled row of each stream."""

    async def settling(self) -> SettleReport:
        """How settling is."""

    async def refresh(self) -> None:
        """Catch up with all that was committed before this call."""
