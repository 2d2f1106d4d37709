"""The gateway's stores: the claimed journal, both tables, the state rebuilt from them."""

from dataclasses import dataclass

from api.gateway.gateway_options import GatewayOptions
from conf.clock import Clock, SystemClock
from conf.data_location import DataLocation
from conf.limits import JOURNAL_FETCH_CACHE_BYTES
from conf.settings import Settings
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import SHARD
from delta_store.reading.journal_tail import open_tables
from delta_store.reading.past_runs import PastRuns
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.storage.open_storage import open_storage
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.stores.stores_open import open_stores, refuse_apart, refuse_lost_journal
from delta_store.streams.catalog import Catalog
from delta_store.values.schemas import JOURNAL_FOLDER


@dataclass(frozen=True, slots=True)
class Stores:
    """The open tables and the state rebuilt from them."""

    journal: Journal
    settled: SettledTable
    payloads: Payloads
    past: PointInTime
    runs: PastRuns
    """The past in bulk."""
    catalog: Catalog
    data: DataLocation


def claim_stores(
    options: GatewayOptions,
    settings: Settings,
    progress: OpeningProgress | None = None,
    *,
    clock: Clock | None = None,
) -> Stores:
    """Claim the journal, which fences any other owner, then rebuild the state. Blocks.

    Raises ``JournalError``, ``ReadError``, ``OSError`` and ``OpeningAbandoned``.
    """
    data, cache_bytes = options.data, settings.reads.cache_bytes_max
    settled, tail = open_tables(data, cache_bytes=cache_bytes, journal_cache_bytes=JOURNAL_FETCH_CACHE_BYTES)
    storage = open_storage(data.table(JOURNAL_FOLDER), data.options)
    refuse_lost_journal(storage, settled)
    clock = clock or SystemClock()
    journal = Journal.open(storage, shard=SHARD, clock=clock)
    journal.claim()
    tail.follow(journal.reader)
    payloads = Payloads(settled, tail, tail_bytes=cache_bytes)
    opened = open_stores(settled, tail, domain=options.domain, newest=payloads.tail, progress=progress)
    refuse_apart(journal, opened)
    runs = PastRuns(SlicePlanner(settled, tail), data)
    return Stores(journal, settled, payloads, PointInTime(settled, tail, clock=clock), runs, opened.catalog, data)
