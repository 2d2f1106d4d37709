"""``silt verify``: a check that everything written is present and unaltered."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from api.cli.endings import ended, reading
from api.cli.options import DataOption
from api.cli.output import Format, Output, OutputOption
from conf.data_location import DataLocation
from conf.exit_codes import Exit
from conf.settings import load_settings
from delta_store.checking.verify_store import Told, verify_store
from delta_store.entries.findings import Report

COLUMNS = ("severity", "table", "file", "found", "what to do")


def verify(data: DataOption, *, output: OutputOption = Format.TEXT) -> None:
    """Read both tables whole: log entries, checksums, row counts, sequence chains, watermarks, missing files.

    Writes nothing and takes no lock, so it may run beside all else. Exit codes: 0 nothing is damaged; 1 something is,
    or there are no tables.
    """
    report = look(data.with_settings(load_settings().storage), "verify")
    Output(output).table(COLUMNS, [tuple(map(str, one)) for one in report.findings])
    if output is Format.TEXT:
        tell(report)
    if not report.is_whole:
        raise typer.Exit(Exit.FAILED)


def look(data: DataLocation, verb: str) -> Report:
    """Verify with a progress bar; ends the process if there are no tables."""
    with reading(f"{verb}: {data}"), _progress() as told:
        report = verify_store(data, told)
    if all(one.version < 0 for one in report.seen) and not report.findings:
        raise ended(verb, f"{data} holds no tables: give the place of a store with --data")
    return report


def tell(report: Report) -> None:
    """Print a line for each table checked, and the verdict."""
    for one in report.seen:
        unread = "can't be read" if one.entries else "is not there"
        place = unread if one.version < 0 else f"version {one.version}"
        typer.echo(f"{one.table}: {place}; {one.entries} log entries, {one.files} files, {one.rows} rows", err=True)
    typer.echo("nothing is damaged" if report.is_whole else "damaged: see above", err=True)


@contextmanager
def _progress() -> Iterator[Told]:
    """Show a bar for each step on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(stderr=True)
    with Progress(
        *Progress.get_default_columns(), MofNCompleteColumn(), console=console, disable=not sys.stderr.isatty()
    ) as bars:
        tasks = {}

        def told(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done + 1, total=total)

        yield told
