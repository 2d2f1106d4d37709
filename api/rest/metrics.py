"""The store's metrics for Prometheus. Imported by the first scrape, so that no start waits for it."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from api.rest.store import RestStore
from delta_store.reading.settle_state import SettleState
from delta_store.reading.settle_watch import SettleReport

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST


def render(store: RestStore, report: SettleReport) -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Gauges(store, report))
    return generate_latest(registry)


class _Gauges(Collector):
    """The gauges of the store at one scrape."""

    def __init__(self, store: RestStore, report: SettleReport) -> None:
        self._store, self._report = store, report

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        store, (news, lag, seconds) = self._store, self._report
        plain: dict[str, tuple[str, float]] = {
            "silt_opened": ("1 once the store can be read.", store.opened),
            "silt_view_age_seconds": ("Time since the tables were looked at.", store.age_seconds),
            "silt_journal_version": ("Delta version of the journal that is shown.", store.journal_version),
            "silt_settled_version": ("Delta version of messages that is shown.", store.settled_version),
        }
        if lag is not None:
            plain["silt_unsettled_rows"] = ("Rows of journal files that are not settled.", lag.rows)
            plain["silt_unsettled_bytes"] = ("Bytes of journal files that are not settled.", lag.bytes)
            plain["silt_unsettled_files"] = ("Journal files that are not settled.", lag.files)
            plain["silt_unsettled_seconds"] = ("Age of the oldest row that is not settled.", seconds)
        for name, (meaning, value) in plain.items():
            yield GaugeMetricFamily(name, meaning, float(value))
        states = GaugeMetricFamily("silt_settle_state", "1 for the state of the settle job.", labels=["state"])
        for state in SettleState:
            states.add_metric([state.value], float(news.state is state))
        yield states
        yield from self._of_streams()

    def _of_streams(self) -> Iterator[Metric]:
        last = GaugeMetricFamily("silt_stream_last_sequence", "Last sequence committed.", labels=["stream"])
        settled = GaugeMetricFamily("silt_stream_settled_sequence", "Last sequence settled.", labels=["stream"])
        messages = GaugeMetricFamily("silt_stream_messages", "Messages.", labels=["stream"])
        size = GaugeMetricFamily("silt_stream_bytes", "Bytes of messages.", labels=["stream"])
        marks = self._store.watermarks
        for name, state in self._store.catalog.streams.items():
            mark = marks.get(name)
            mine = mark is not None and mark.stream_id == state.stream_id
            last.add_metric([name], state.index.last_seq)
            settled.add_metric([name], mark.seq if mark is not None and mine else 0)
            messages.add_metric([name], state.index.msgs)
            size.add_metric([name], state.index.bytes)
        yield from (last, settled, messages, size)
