"""Who tells that settling is behind: the gateway's log, its answer to ``silt stream report``, and ``silt doctor``."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api.gateway.gateway_upkeep import GatewayUpkeep
from api.up.doctor import check_settling
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.settings import JournalSettings
from delta_store.reading.settle_state import SettleState, StateTeller
from delta_store.reading.settled import SettledTable
from tests.groups import SteppedClock, group, open_journal


def test_the_log_says_once_a_minute_that_settling_lags(tmp_path: Path) -> None:
    """And whoever asks gets the state of the job, its error and the lag."""
    journal = open_journal(tmp_path / "journal")
    journal.commit(group(1, 10))
    said: list[tuple[str, str]] = []
    clock = SteppedClock()
    with ThreadPoolExecutor(1) as executor, StateTeller(tmp_path, clock) as teller:
        upkeep = GatewayUpkeep(
            journal,
            SettledTable(str(tmp_path / "messages")),
            data=DataLocation(str(tmp_path)),
            executor=executor,
            report=lambda event, reason: said.append((event, reason)),
            chosen=JournalSettings(unsettled_rows_max=15),
        )
        upkeep._clock = upkeep._settle_job._clock = clock
        for _ in range(3):
            clock.seconds += 40
            teller.tell(SettleState.FAILING, "no Java")
            upkeep.once()
    assert [event for event, _ in said] == ["settling lags: acknowledgements are held back"] * 2
    assert upkeep.told["rows"] == 10
    assert upkeep.told["state"] == "failing"
    assert upkeep.told["why"] == "no Java"
    assert not upkeep.is_full
    journal.commit(group(11, 5))
    assert upkeep.is_full, "what is committed between two rounds counts at once"


def test_doctor_says_how_far_settling_is_behind(tmp_path: Path) -> None:
    """Above half of what may wait it is a failure, below it is not; so is a settle job that fails."""
    assert check_settling(DataLocation(str(tmp_path / "none")), JournalSettings()).ok
    open_journal(tmp_path / "journal").commit(group(1, 10))
    behind = check_settling(DataLocation(str(tmp_path)), JournalSettings(unsettled_rows_max=15))
    assert not behind.ok
    assert "10 rows" in behind.found
    assert "67% of what may wait" in behind.found
    assert check_settling(DataLocation(str(tmp_path)), JournalSettings()).ok
    with StateTeller(tmp_path, SystemClock()) as teller:
        teller.tell(SettleState.FAILING, "no Java")
        failing = check_settling(DataLocation(str(tmp_path)), JournalSettings())
    assert not failing.ok
    assert "failing (no Java)" in failing.found
