"""Measure Silt against nats-server on this machine: ``make bench``, or ``python -m tests.benchmarks.bench --help``.

What the loads are, and what a two-core machine should give (back of an envelope, before measuring):

- *pub sync*: one publisher, one message in flight: a round trip (≈60 µs) and, where every message is made durable, the
  fsyncs: one for ``sync_interval: always``, four for a Delta commit (file, folder, log entry, folder). With an fsync of
  f ms Silt can give about 1000 / (4 f + 0.5) a second.
- *pub async 500 / 5000*: the same four fsyncs shared by all that is in flight: 500 in a group of 2 to 3 ms would be
  200,000 a second, so the Python gateway's processor time (≈5 µs a message) is the limit, not the disk.
- *get sync*: a round trip and one lookup; *get batch*: a frame of ≈300 bytes a message, ≈3 µs each.
- *ordered*, *consume*, *fetch*: a Python leaf alone hands over 750,000 frames a second; an explicit ack costs as much
  as a delivery, and both share two cores with the hub and the client.
- *replay*: the same from Parquet, ≈1 µs a message more.
- *backup*, *restore*: by the nats CLI, whose start is part of it; an entry costs about a microsecond each way, and
  S2 and its checksums are a library's. A restore also writes the journal, as the bulk path of publishing does.
- *sql*: see :mod:`tests.benchmarks.sql`; a rate is the stream's messages by the time from the shell to the answer.
- *settle*: Spark reads the journal's Parquet and writes it once more, sorted; a bare append does the same without
  sorting, deduplication and limits.

Contenders are started afresh, in turn, for every repetition (ABAB), so that a machine that grows slower or faster
meets both alike. Medians are compared. Nothing else should run meanwhile: the load average is saved beside the result.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks import backup, replay, settling, spark_source, spark_views, sql
from tests.benchmarks.loads import CONTENDERS, LOADS, LoadFailed, create_stream, run_load
from tests.benchmarks.machine import machine, versions
from tests.benchmarks.report import Runs, ratios, save, table
from tests.servers import ROOT

PARTS = ("loads", "replay", "backup", "settle", "lag", "spark-source", "spark-views", "sql")
DEFAULT_CONTENDERS = ("nats-server", "nats-server, sync always", "silt")


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, print the table, save the result; with ``--strict`` a missed target gives status 1."""
    options = _parser().parse_args(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"machine": machine(folder), "versions": versions(), "options": _plain(options)}
    runs: Runs = {}
    failures: list[dict[str, str]] = []
    lag = None
    try:
        if "loads" in options.parts:
            runs |= measure_loads(options, folder, failures)
        for rates in measure_parts(options, folder):
            for contender, loads in rates.items():
                runs.setdefault(contender, {}).update(loads)
        if "lag" in options.parts:
            lag = settling.lag(folder / "lag", seconds=options.lag_seconds)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    found = ratios(runs, options.silt)
    result |= {"runs": runs, "ratios": found, "lag": lag, "failures": failures}
    _say(table(runs, options.silt, lag))
    _say(f"\nsaved as {save(result, options.results)}")
    return 1 if options.strict and not all(item["met"] for item in found) else 0


def measure_parts(options: argparse.Namespace, folder: Path) -> Iterator[Runs]:
    """Yield the rates of the chosen parts that bring contenders of their own."""
    times, rows = options.repetitions, options.rows
    if "replay" in options.parts:
        yield replay.replay_rates(folder / "replay", messages=options.replay_messages, repetitions=times)
    if "backup" in options.parts:
        yield backup.backup_rates(folder / "backup", messages=options.backup_messages, repetitions=times)
    if "settle" in options.parts:
        yield settling.settle_rates(folder, rows=rows, repetitions=times)
    if "spark-source" in options.parts:
        yield spark_source.spark_rates(folder / "spark", rows=rows, repetitions=times)
    if "spark-views" in options.parts:
        yield spark_views.view_times(folder, messages=options.sql_messages, repetitions=times)
    if "sql" in options.parts:
        yield sql.sql_times(folder, messages=options.sql_messages, repetitions=times, spark=options.sql_spark)


def measure_loads(options: argparse.Namespace, folder: Path, failures: list[dict[str, str]]) -> Runs:
    """All repetitions of all chosen loads on all chosen contenders, interleaved; gathers ``failures`` too."""
    chosen = [load for load in LOADS if load.name in options.loads]
    runs: Runs = {}
    for repetition in range(1, options.repetitions + 1):
        for contender in options.contenders:
            home = folder / "contender"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            with CONTENDERS[contender](home) as url:
                create_stream(url)
                for load in chosen:
                    what = f"{repetition}/{options.repetitions}  {contender:<26}{load.name:<16}"
                    try:
                        entry = run_load(url, load, seconds=options.seconds, folder=folder)
                    except LoadFailed as failure:
                        # sync_interval: always can not take 5,000 in flight: the CLI gives up after a stall.
                        failures.append({"contender": contender, "load": load.name, "output": str(failure)[-500:]})
                        _say(f"{what}{'failed':>12}: {str(failure).strip().splitlines()[-1]}")
                        continue
                    runs.setdefault(contender, {}).setdefault(load.name, []).append(entry)
                    _say(f"{what}{entry['rate']:>12,.0f} msg/s")
    return runs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure Silt against nats-server on this machine.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--loads", nargs="+", choices=[load.name for load in LOADS], default=[item.name for item in LOADS]
    )
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(DEFAULT_CONTENDERS))
    parser.add_argument("--silt", choices=("silt", "silt up"), default="silt", help="whose rates the ratios are of")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long one load is to last")
    parser.add_argument(
        "--rows", type=int, default=500_000, help="rows of the journal to settle, and of Spark's reads and writes"
    )
    parser.add_argument("--replay-messages", type=int, default=10_000_000, help="messages of the replayed stream")
    parser.add_argument("--backup-messages", type=int, default=200_000, help="messages of a stream that is backed up")
    parser.add_argument("--sql-messages", type=int, default=1_000_000, help="messages of the stream that SQL reads")
    parser.add_argument("--sql-spark", action="store_true", help="ask --engine spark as well, once")
    parser.add_argument("--lag-seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench", help="where the stores are put")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--keep", action="store_true", help="leave the stores behind")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a target is missed")
    return parser


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
