"""Message schedules as a replay of their rows finds them."""

from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import last_by_subject
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay
from delta_store.values.records import RowColumns
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import decide

NOW = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def published(catalog: Catalog, rows: RowColumns, subject: bytes, header: bytes) -> None:
    """Publish one message."""
    group = Group(rows=rows)
    decide(catalog, [WireMessage(subject, b"", header, b"x")], NOW, group)


def test_replay_finds_the_same_schedules() -> None:
    """Schedules are due where they were decided and where their rows are replayed; what took their place is not."""
    catalog, rows = Catalog(), RowColumns()
    config = StreamConfig("S", ("s.>",), allow_msg_schedules=True, allow_rollup_hdrs=True)
    catalog.create(config, now_ns=NOW, rows=rows)
    block = b"NATS/1.0\r\nNats-Schedule: @every 5s\r\nNats-Schedule-Target: s.t\r\n\r\n"
    for subject in (b"s.a", b"s.b", b"s.a", b"s.c", b"s.d"):
        published(catalog, rows, subject, block)
    published(catalog, rows, b"s.c", b"")
    published(catalog, rows, b"s.e", b"NATS/1.0\r\nNats-Schedule-Next: purge\r\nNats-Scheduler: s.d\r\n\r\n")
    again = Catalog()
    replay(again, rows)
    for one in (catalog, again):
        state = one.streams["S"]
        assert state.schedules is not None
        assert state.schedules.due(state.index, now_ns=NOW + 4 * SECOND, limit=9) == []
        assert state.schedules.due(state.index, now_ns=NOW + 6 * SECOND, limit=9) == [2, 3]
        assert last_by_subject(state.index, "s.d") == 0
