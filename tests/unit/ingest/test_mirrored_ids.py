"""The message ids of what a mirror has copied: known when it takes publishes itself, and nothing is stored twice."""

import pytest

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ExternalStream, StreamSource
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import links_of
from delta_store.values.stream_message import MessageRun, StreamMessage
from ingest.publishing.copied_messages import store_copies
from ingest.publishing.group import Group

WINDOW_NS = 1_000
SOURCE = StreamSource("O", external=ExternalStream("$JS.hub.API"))


def message(seq: int, ts_ns: int, *fields: str) -> StreamMessage:
    """One of the origin."""
    header = "".join(f"{line}\r\n" for line in ("NATS/1.0", *fields, ""))
    return StreamMessage("s", seq, ts_ns, header.encode(), b"x")


@pytest.mark.parametrize("window_ns", [0, WINDOW_NS])
def test_ids_are_known_within_the_window(window_ns: int) -> None:
    """Stored in bulk or one by one, also an id that came again at the origin when its window had passed."""
    catalog, group = Catalog(domain="silt"), Group()
    config = StreamConfig("C", mirror=SOURCE, duplicate_window=window_ns, allow_rollup_hdrs=True)
    state = catalog.create(config, now_ns=1, rows=group.rows)
    link = links_of(state)[0]
    bulk = [message(1, 10_000, "Nats-Msg-Id: a"), message(2, 10_900, "Nats-Msg-Id: b"), message(3, 12_000)]
    singly = [message(4, 12_100, "Nats-Msg-Id: a", "Nats-Rollup: sub"), message(5, 12_200, "Nats-Msg-Id: c")]
    for run in (bulk, singly, [message(6, 13_150, "Nats-Msg-Id: a")]):
        done = store_copies(catalog, link, MessageRun.of(run), identity="", now_ns=run[-1].ts_ns, group=group)
        assert done == len(run)
    assert state.index.last_seq == 6
    state.dedup.forget(13_160)
    known = {name: state.dedup.find(name) for name in ("a", "b", "c")}
    assert known == ({"a": 6, "b": 0, "c": 5} if window_ns else {"a": 0, "b": 0, "c": 0})
    state.dedup.forget(20_000)
    assert not len(state.dedup)
