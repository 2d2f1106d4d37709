"""How far settling is behind, and what that does to publishers."""

from itertools import pairwise
from pathlib import Path

import pytest

from delta_store.entries.settle_lag import (
    BRAKE_SECONDS_MAX,
    Lag,
    Pressure,
    Volume,
    brake_seconds,
    fill,
    lag_of,
    pressure_of,
)
from delta_store.reading.settle_state import SettleState, StateListener, StateTeller
from delta_store.reading.settle_watch import SettleWatch
from delta_store.values.watermark import Watermark
from tests.groups import STREAM_ID, SteppedClock, group, open_journal, settled_to


def test_what_is_above_the_watermark_is_behind(tmp_path: Path) -> None:
    """Files count until their last row is settled; the oldest of them says how long it has been."""
    journal = open_journal(tmp_path / "journal")
    for first in (1, 11, 21):
        journal.commit(group(first, 10))
    files = journal.reader.live_files()
    everything = lag_of(files, {})
    assert (everything.rows, everything.files, everything.bytes) == (30, 3, sum(file.size for file in files))
    assert everything.oldest_ms == files[0].modified_ms
    part = lag_of(files, settled_to(15))
    assert (part.rows, part.files) == (20, 2)
    assert lag_of(files, settled_to(30)) == Lag()
    assert Lag().seconds(10**18) == 0
    assert everything.seconds(files[0].modified_ms * 1_000_000 + 5 * 10**9) == pytest.approx(5)


def test_publishers_are_slowed_down_more_and_more_then_refused() -> None:
    """Nothing happens below half of the nearest bound, and nothing waits longer than the longest time."""
    bounds = Volume(rows=100, bytes=1000, files=10)
    assert fill(Lag(rows=10, bytes=900, files=1), bounds) == 0.9
    held = [brake_seconds(share / 100) for share in range(151)]
    assert held[50] == 0
    assert all(low <= high for low, high in pairwise(held))
    assert 0 < held[51] < held[75] < held[100] == held[150] == BRAKE_SECONDS_MAX
    assert [pressure_of(share) for share in (0.5, 0.6, 1.0)] == [Pressure.NONE, Pressure.BRAKE, Pressure.FULL]


def test_a_reader_sees_how_settling_is(tmp_path: Path) -> None:
    """The job's word ages; the journal is followed without its owner."""
    clock = SteppedClock()
    watch = SettleWatch(str(tmp_path), clock)
    news, lag, _ = watch.look({})
    assert (news.state, lag) == (SettleState.SILENT, Lag())
    journal = open_journal(tmp_path / "journal")
    journal.commit(group(1, 10))
    clock.seconds += 2
    with StateTeller(tmp_path, clock) as teller:
        teller.tell(SettleState.FAILING, "no Java")
        assert StateListener(str(tmp_path), clock).news() == (SettleState.FAILING, "no Java")
        news, lag, _ = watch.look({})
        assert news.state is SettleState.FAILING
        assert lag is not None
        assert lag.rows == 10
    journal.commit(group(11, 10))
    clock.seconds += 60
    news, lag, _ = watch.look({"ORDERS": Watermark(STREAM_ID, 10, 0, 1)})
    assert news == (SettleState.SILENT, "no Java")
    assert lag is not None
    assert (lag.rows, lag.files) == (10, 1)
