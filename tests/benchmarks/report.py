"""Medians, ratios beside their targets, and the saved result."""

import json
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NATS_DEFAULT = "nats-server"
NATS_ALWAYS = "nats-server, sync always"


@dataclass(frozen=True, slots=True)
class Target:
    """``load`` on Silt is to reach ``ratio`` times the rate of ``against``."""

    load: str
    against: str
    ratio: float


TARGETS = (
    Target("pub sync", NATS_ALWAYS, 0.2),
    Target("pub async 500", NATS_DEFAULT, 0.6),
    Target("pub async 500", NATS_ALWAYS, 25),
    Target("pub async 5000", NATS_DEFAULT, 0.8),
    Target("get sync", NATS_DEFAULT, 0.3),
    Target("get batch", NATS_DEFAULT, 0.5),
    Target("ordered", NATS_DEFAULT, 0.8),
    Target("consume", NATS_DEFAULT, 0.5),
    Target("fetch", NATS_DEFAULT, 0.5),
    Target("kv put", NATS_DEFAULT, 0.5),
    Target("kv get", NATS_DEFAULT, 0.5),
    Target("object put", NATS_DEFAULT, 0.5),
    Target("object get", NATS_DEFAULT, 0.5),
    Target("replay", NATS_DEFAULT, 0.8),
    *(Target(f"{load} {size} B", NATS_DEFAULT, 0.7) for load in ("backup", "restore") for size in (128, 1024)),
    Target("settle", "bare Spark append", 0.6),
    *(
        Target(f"sql warm {question}, 1M/{subjects}", "DuckDB", 0.8)
        for subjects in (1, 100_000)
        for question in ("count", "group", "last", "as of", "diff")
    ),
    *(
        Target(f"spark view {question}, 1M/{subjects}", "plain Delta", 0.77)
        for subjects in (1, 100_000)
        for question in ("count", "group", "last", "payload")
    ),
)
LAG_SECONDS_MAX = 5.0

Runs = dict[str, dict[str, list[dict[str, float]]]]
"""contender → load → one entry for each repetition, with ``rate`` in messages per second."""


def medians(runs: Runs) -> dict[str, dict[str, float]]:
    """Median rates: contender → load → messages per second."""
    return {
        contender: {load: statistics.median(run["rate"] for run in entries) for load, entries in loads.items()}
        for contender, loads in runs.items()
    }


def ratios(runs: Runs, silt: str) -> list[dict[str, Any]]:
    """Each target that was measured, with what was reached."""
    rates = medians(runs)
    found = []
    for target in TARGETS:
        reached, other = rates.get(silt, {}).get(target.load), rates.get(target.against, {}).get(target.load)
        if reached and other:
            ratio = reached / other
            found.append(
                {
                    "load": target.load,
                    "against": target.against,
                    "ratio": round(ratio, 3),
                    "target": target.ratio,
                    "met": ratio >= target.ratio,
                }
            )
    return found


def table(runs: Runs, silt: str, lag: dict[str, float] | None) -> str:
    """The result as text: rates with their spread, then ratios beside targets."""
    rates = medians(runs)
    lines = [f"{'messages per second (median, least … most)':<48}{'runs':>5}", ""]
    for contender, loads in runs.items():
        for load, entries in loads.items():
            each = [run["rate"] for run in entries]
            spread = f"{min(each):,.0f} … {max(each):,.0f}"
            latency = f"p50 {entries[-1]['p50_us']:,.0f} µs" if "p50_us" in entries[-1] else ""
            if "cpu_seconds" in entries[-1]:
                cpu = statistics.median(run["cpu_seconds"] for run in entries)
                latency = f"{statistics.median(run['seconds'] for run in entries):.2f} s, {cpu:.2f} s of processors"
            lines.append(
                f"  {contender:<26}{load:<16}{rates[contender][load]:>12,.0f}{len(each):>5}  ({spread})  {latency}"
            )
    lines += ["", f"{'ratio':<18}{'against':<28}{'reached':>9}{'target':>9}"]
    for item in ratios(runs, silt):
        mark = "met" if item["met"] else "MISSED"
        lines.append(f"  {item['load']:<16}{item['against']:<28}{item['ratio']:>9.2f}{item['target']:>9.2f}  {mark}")
    if lag:
        mark = "met" if lag["max_seconds"] < LAG_SECONDS_MAX else "MISSED"
        what = f"settle lag at {lag['rate']:,.0f} msg/s: median {lag['median_seconds']:.2f} s"
        lines.append(f"  {what}, most {lag['max_seconds']:.2f} s, target under {LAG_SECONDS_MAX:.0f} s  {mark}")
    return "\n".join(lines)


def save(result: dict[str, Any], folder: Path) -> Path:
    """Write the result to ``folder/<date>-<commit>.json`` (a number is added when it exists)."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.now(UTC):%Y-%m-%d}-{result['versions']['commit']}"
    path, number = folder / f"{stem}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path
