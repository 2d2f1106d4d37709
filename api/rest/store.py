"""What the REST API needs of a store; :class:`delta_store.replica.Replica` is one."""

from typing import Protocol

from delta_store.catalog import Catalog
from delta_store.payloads import Payloads
from delta_store.point_in_time import PointInTime
from delta_store.read_threads import ReadThreads


class RestStore(Protocol):
    """Streams, messages and their past, as of ``journal_version``."""

    @property
    def catalog(self) -> Catalog:
        """The live streams; replaced as a whole by a rebuild, so never kept over an await."""

    @property
    def payloads(self) -> Payloads:
        """Their messages."""

    @property
    def past(self) -> PointInTime:
        """What they held before."""

    @property
    def threads(self) -> ReadThreads:
        """Where blocking reads run."""

    @property
    def journal_version(self) -> int:
        """Delta version of the journal that the catalog shows."""

    @property
    def settled_version(self) -> int:
        """Delta version of the settled messages."""

    @property
    def age_seconds(self) -> float:
        """Time since the store looked at the tables."""

    async def refresh(self) -> None:
        """Catch up with all that was committed before this call."""
