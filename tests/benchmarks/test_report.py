"""What a benchmark concludes from its runs."""

import json
from pathlib import Path

from tests.benchmarks.report import Runs, medians, ratios, save, table


def _runs(silt: list[float], default: list[float]) -> Runs:
    return {
        "silt": {"pub async 500": [{"rate": rate} for rate in silt]},
        "nats-server": {"pub async 500": [{"rate": rate} for rate in default]},
    }


def test_ratio_is_of_medians() -> None:
    """One wild run on either side does not move the ratio, and the target decides whether it is met."""
    runs = _runs([60.0, 61.0, 1000.0], [100.0, 100.0, 1.0])
    assert medians(runs)["silt"]["pub async 500"] == 61.0
    assert [(item["ratio"], item["met"]) for item in ratios(runs, "silt")] == [(0.61, True)]
    assert [item["met"] for item in ratios(_runs([59.0], [100.0]), "silt")] == [False]


def test_what_was_not_measured_is_not_judged() -> None:
    """A load that a contender could not carry gives no ratio."""
    assert ratios({"silt": {"pub sync": [{"rate": 1.0}]}}, "silt") == []


def test_table_names_what_is_missed() -> None:
    """The printed table says of each target whether it was met, the lag included."""
    lag = {"rate": 10_000.0, "median_seconds": 1.0, "max_seconds": 6.0, "warm_up_max_seconds": 9.0}
    text = table(_runs([10.0], [100.0]), "silt", lag)
    assert text.count("MISSED") == 2
    assert "met" not in table(_runs([70.0], [100.0]), "silt", None).replace(" met", "", 1)


def test_results_are_never_overwritten(tmp_path: Path) -> None:
    """Two runs of one day and commit are two files."""
    result = {"versions": {"commit": "abc"}, "runs": {}}
    first, second = save(result, tmp_path), save(result, tmp_path)
    assert first != second
    assert json.loads(second.read_text()) == result
