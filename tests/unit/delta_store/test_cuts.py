"""Cuts as messages: what is recorded of all streams, and what is read back of one."""

import json

import pytest

from delta_store.config.api_errors import ApiRefusal
from delta_store.config.stream_config import StreamConfig
from delta_store.streams import cuts
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row
from delta_store.values.cut_record import CUTS, cut_data, place_in
from delta_store.values.records import Position, RowColumns

NOW_NS = 1_764_000_000_000_000_000


def filled() -> tuple[Catalog, RowColumns]:
    """A catalog with streams A, of three messages, and B, whose one message has outlived it."""
    catalog, rows = Catalog(), RowColumns()
    for name, fields in (("A", {}), ("B", {"max_age": 1_000_000_000})):
        state = catalog.create(StreamConfig(name, subjects=(name,), **fields), now_ns=NOW_NS, rows=rows)
        for _ in range(3 if name == "A" else 1):
            state.store((name, state.index.table.intern(name), None, b"", None), now_ns=NOW_NS, rows=rows)
    return catalog, rows


def take(catalog: Catalog, rows: RowColumns, name: str) -> Position:
    """Take a cut; return where A stands in it."""
    cuts.take(catalog, name, now_ns=NOW_NS + 2_000_000_000, rows=rows)
    place = place_in(rows.data[-1], "A", catalog.streams["A"].stream_id)
    assert place is not None
    return place


def test_a_cut_is_where_all_streams_stand() -> None:
    """Before its own row, and with all ages recorded that are over."""
    catalog, rows = filled()
    assert take(catalog, rows, "one") == catalog.streams["A"].position
    streams = json.loads(rows.data[-1])["streams"]
    assert streams == {name: list(catalog.streams[name].position) for name in ("A", "B")}
    assert catalog.streams["B"].index.msgs == 0
    assert streams["B"][2] == 2
    catalog.remove("A", 2, now_ns=NOW_NS, rows=rows)
    after = take(catalog, rows, "two")
    assert (after.seq, after.event_no) == (3, 2)
    assert list(json.loads(rows.data[-1])["streams"]) == ["A", "B", CUTS]
    assert [name for name, _ in cuts.taken(catalog.streams[CUTS])] == ["one", "two"]


def test_names_are_unique_and_may_be_used_again() -> None:
    """A second one of the name is refused until the first is forgotten; one that is not there can't be."""
    catalog, rows = filled()
    assert cuts.taken(None) == []
    with pytest.raises(ApiRefusal, match="there is no cut 'one'"):
        cuts.drop(catalog, "one", now_ns=NOW_NS, rows=rows)
    before = take(catalog, rows, "one")
    with pytest.raises(ApiRefusal, match="silt cut rm one"):
        take(catalog, rows, "one")
    cuts.drop(catalog, "one", now_ns=NOW_NS, rows=rows)
    catalog.remove("A", 1, now_ns=NOW_NS, rows=rows)
    assert take(catalog, rows, "one") > before
    assert len(cuts.taken(catalog.streams[CUTS])) == 1


def test_a_replay_has_the_cuts() -> None:
    """They are rows as any others."""
    catalog, rows = filled()
    take(catalog, rows, "one")
    take(catalog, rows, "two")
    cuts.drop(catalog, "one", now_ns=NOW_NS, rows=rows)
    again = Catalog()
    for row in rows.rows():
        replay_row(again, row)
    assert cuts.taken(again.streams[CUTS]) == cuts.taken(catalog.streams[CUTS])


def test_another_incarnation_was_not_there() -> None:
    """A stream of the same name that was made later, or one that nobody knew."""
    data = cut_data({"A": Position(7, 3, 1)})
    assert place_in(data, "A", 7) == Position(7, 3, 1)
    assert place_in(data, "A", 8) is None
    assert place_in(data, "B", 7) is None


_STREAMS = (b"[]", b'{"A":7}', b'{"A":[7]}', b'{"A":[7,"x",1]}')


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"{}", *(b'{"streams":%b}' % one for one in _STREAMS)])
def test_what_is_no_cut(data: bytes) -> None:
    """Whoever gave the stream subjects and published to it gets an error."""
    with pytest.raises(ValueError, match="no cut"):
        place_in(data, "A", 7)
