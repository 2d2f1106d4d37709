"""The payload cache: finds what it holds, in any mix of streams, and stays within its bytes."""

from hypothesis import given
from hypothesis import strategies as st

from delta_store.reading.tail_cache import ROW_BYTES, TailCache
from delta_store.values.records import Row, RowColumns
from tests.tables import History


def columns(rows: list[Row]) -> RowColumns:
    """Rows as a group holds them."""
    made = RowColumns()
    for row in rows:
        made.append(row)
    return made


@given(
    st.lists(st.lists(st.sampled_from(["A", "B", "event"]), min_size=1, max_size=6), max_size=10),
    st.integers(1, 5000),
)
def test_holds_the_newest_groups_of_all_streams(groups: list[list[str]], bytes_max: int) -> None:
    """A message of a kept group is found under its stream and sequence, one of a dropped group never."""
    cache, streams = TailCache(bytes_max), {"A": History(stream="A"), "B": History(stream="B")}
    kept: list[tuple[int, list[Row]]] = []
    for group in groups:
        rows = [streams["A"].create() if one == "event" else streams[one].publish("s", b"x" * 50) for one in group]
        cache.add(columns(rows))
        messages = [row for row in rows if row.kind == "message"]
        kept.append((sum(len(row.data) + ROW_BYTES for row in messages), messages))
    while kept and sum(size for size, _ in kept) > bytes_max:
        kept.pop(0)
    assert cache.bytes == sum(size for size, _ in kept) <= bytes_max
    held = {(row.stream, row.seq): row for _, rows in kept for row in rows if row.kind == "message"}
    for name, history in streams.items():
        for seq in range(history.seq + 2):
            message = cache.get(name, history.stream_id, seq)
            assert (message is not None) == ((name, seq) in held)
            assert message is None or (message.seq, message.data) == (seq, held[name, seq].data)
        present = sorted(seq for stream, seq in held if stream == name)
        assert [one.seq for one in cache.run(name, history.stream_id, present)] == present
        assert cache.run(name, history.stream_id, [0, *present]) == []


def test_a_run_stops_at_the_first_that_is_missing() -> None:
    """What comes before a gap is given, the rest is left to slower places."""
    history, cache = History(), TailCache(1 << 20)
    rows = [history.publish("s") for _ in range(9)]
    cache.add(columns(rows[:3]))
    cache.add(columns(rows[5:]))
    assert [one.seq for one in cache.run("S", history.stream_id, [1, 3, 6])] == [1, 3, 6]
    assert [one.seq for one in cache.run("S", history.stream_id, [2, 4, 6])] == [2]
    assert cache.run("S", history.stream_id + 1, [1]) == []
    assert cache.get("S", history.stream_id, 4) is None


def test_a_group_larger_than_the_cache_is_not_kept() -> None:
    """The bound holds even for one group."""
    history, cache = History(), TailCache(300)
    cache.add(columns([history.publish("s", b"x" * 400)]))
    assert (cache.bytes, cache.get("S", history.stream_id, 1)) == (0, None)
    cache.add(columns([history.publish("s", b"x")]))
    assert cache.get("S", history.stream_id, 2) is not None
    cache.clear()
    assert (cache.bytes, cache.get("S", history.stream_id, 2)) == (0, None)
