"""The store of the REST API; :class:`delta_store.stores.replica.Replica` is one."""

from typing import Protocol

from delta_store.reading.settle_watch import SettleReport
from delta_store.reading.store_reader import StoreReader
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.streams.catalog import Catalog
from delta_store.values.watermark import Watermarks


class RestStore(Protocol):
    """Streams, messages and their past, as of ``journal_version``; the catalog must not be held over an await."""

    @property
    def catalog(self) -> Catalog:
        """The live streams."""

    @property
    def reader(self) -> StoreReader:
        """Reads their messages, now and in the past."""

    @property
    def opened(self) -> bool:
        """Whether the store is open."""

    @property
    def opening(self) -> OpeningProgress:
        """Progress of opening."""

    @property
    def journal_version(self) -> int:
        """Delta version of the journal in the catalog."""

    @property
    def settled_version(self) -> int:
        """Delta version of the settled messages."""

    @property
    def age_seconds(self) -> float:
        """Seconds since the tables were last read."""

    @property
    def watermarks(self) -> Watermarks:
        """The last settled row of each stream."""

    async def settling(self) -> SettleReport:
        """Return the state of settling."""

    async def changed(self, version: int) -> None:
        """Wait until the catalog is at another version of the journal than this one."""

    async def refresh(self) -> None:
        """Catch up with everything committed before this call."""
