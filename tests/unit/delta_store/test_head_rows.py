"""Rows of ``heads``: which states their versions hold, and which rows may go."""

from delta_store.entries import head_rows
from delta_store.entries.head_rows import Deletes, HeadRow, Said, Settled
from delta_store.values.records import Position
from delta_store.values.watermark import Watermark

BORN = Said(7, '{"name":"S"}', born=True)
NEVER = Deletes(-1, {})


def _row(
    before: HeadRow | None, seq: int, version: int, *, said: Said | None = None, deletes: Deletes = NEVER
) -> HeadRow:
    now = Settled(Watermark(1, seq, 2, 1), 100 * seq, said)
    followed = version - 1 if before is None else before.version
    return head_rows.next_row("S", before, now, deletes=deletes, followed=followed, place=(version, 0, version))


def test_versions_hold_all_states_since_the_last_delete() -> None:
    """From the first on; after cleanup, from what was settled then on."""
    first = _row(None, 5, 2, said=BORN)
    assert (first.from_seq, first.from_ns, first.config, first.created_ns) == (1, 0, '{"name":"S"}', 7)
    second = _row(first, 9, 3)
    assert (second.from_seq, second.from_ns, second.config) == (1, 0, first.config)
    third = _row(second, 12, 5, deletes=Deletes(4, {"S": Watermark(1, 9, 2, 1)}))
    assert (third.from_seq, third.from_ns) == (10, 901)
    rows = [first, second, third]
    assert head_rows.holding(rows, "S", seq=7) == second
    assert head_rows.holding(rows, "S", seq=10) == third
    assert head_rows.holding(rows, "S", seq=13) is None
    assert head_rows.holding(rows, "S", before_ns=900) == second
    assert head_rows.holding(rows, "S", before_ns=901) == third
    assert head_rows.holding(rows, "S") == third
    assert head_rows.thinned(rows, before_ns=0, whole=True) == [second, third]
    assert head_rows.thinned(rows, before_ns=6, whole=True) == [third]


def test_what_was_settled_before_cleanup_and_told_after_is_not_held() -> None:
    """A row that comes late, after a cleanup of what it tells, holds only what came behind that."""
    late = _row(_row(None, 5, 2, said=BORN), 12, 6, deletes=Deletes(5, {"S": Watermark(1, 9, 2, 1)}))
    assert (late.from_seq, late.from_ns) == (10, 1201)
    unknown = _row(None, 12, 6, said=Said(7, "{}", born=False))
    assert (unknown.from_seq, unknown.from_ns) == (13, 1201)
    assert head_rows.holding([unknown], "S", seq=12) is None


def test_a_deleted_stream_has_no_state_and_leaves_in_the_end() -> None:
    """Its last row stays for a horizon, and longer than any older one."""
    first = _row(None, 5, 2, said=BORN)
    last = _row(first, 5, 3, said=Said(0, None, born=False))
    assert (last.config, last.created_ns) == (None, 7)
    assert head_rows.holding([first, last], "S", seq=3) is None
    assert head_rows.living([first, last]) == {}
    assert head_rows.thinned([first, last], before_ns=4, whole=False) == [last]
    assert head_rows.thinned([first, last], before_ns=4, whole=True) == []


def test_rows_survive_their_table() -> None:
    """Written and read back: the same, and the newest of each stream."""
    rows = [_row(None, 5, 2, said=BORN), _row(None, 6, 3, said=BORN)]
    assert head_rows.from_table(head_rows.as_table(rows)) == rows
    assert head_rows.newest(head_rows.as_table(rows)) == {"S": rows[1]}
    assert head_rows.newest(head_rows.as_table([])) == {}
    assert head_rows.behind({"S": rows[1]}, {"S": Watermark(1, 6, 3, 1), "T": Watermark(2, 0, 1, 1)}) == ["S", "T"]
    assert head_rows.behind({"S": rows[1]}, {"S": Watermark(1, 6, 2, 1)}) == []


def test_events_tell_of_the_stream() -> None:
    """The newest configuration, and whether the stream was made or deleted."""
    made = (Position(1, 0, 1), "stream", b'{"config":{"name":"S"},"created_ns":7}')
    changed = (Position(1, 4, 2), "stream", b'{"config":{"name":"S","max_msgs":3},"created_ns":7}')
    gone = (Position(1, 9, 3), "stream_delete", b"{}")
    assert head_rows.said_by([]) is None
    assert head_rows.said_by([changed, made]) == Said(7, '{"name":"S","max_msgs":3}', born=True)
    assert head_rows.said_by([changed, gone]) == Said(7, None, born=False)


def test_a_row_is_merged_a_few_times_only() -> None:
    """The newest files that are about as long as all newer ones together."""
    assert head_rows.newest_tier([1000, 100, 10, 1, 1, 1]) == 3
    assert head_rows.newest_tier([4, 2, 1, 1]) == 4
    assert head_rows.newest_tier([5]) == 1


def test_a_resting_stream_is_told_anew() -> None:
    """With the versions of now; only what is behind its last row is held."""
    row = _row(None, 5, 2, said=BORN)
    [anew] = head_rows.renewed([row], before_ns=3, place=(9, 4, 8))
    assert (anew.version, anew.removed_version, anew.from_seq, anew.from_ns, anew.settled_ns) == (9, 4, 6, 501, 8)
    assert head_rows.renewed([row], before_ns=2, place=(9, 4, 8)) == []
