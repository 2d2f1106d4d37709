"""``silt repair``: repairs that lose nothing, announced first."""

from contextlib import ExitStack
from typing import Annotated

import typer

from api.cli.options import FolderOption
from api.cli.output import Format, Output
from api.cli.verify import COLUMNS, look, tell
from conf.clock import SystemClock
from conf.error_text import error_text
from conf.exit_codes import Exit
from delta_store.checking.repair_store import plan_repair
from delta_store.storage.store_lock import AlreadySettling, StoreLocked, settle_lock, store_lock
from delta_store.values.journal_errors import JournalError
from delta_store.values.read_errors import ReadError


def repair(
    data: FolderOption,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    accept_lost_journal: Annotated[
        bool,
        typer.Option(
            "--accept-lost-journal",
            help="Begin a new journal where there is none: what was acknowledged and not settled is lost.",
        ),
    ] = False,
) -> None:
    """Set aside a torn end of messages that the journal still has, and make damaged checkpoints anew.

    Says what it will do and asks, then looks through the store. Takes the locks of gateway and settle job: stop them
    first. Exit codes: 0 nothing is damaged now; 1 something is, or the answer was no; 3 the folder is in use.
    """
    if not data.is_dir():
        typer.echo(f"silt repair: there is no folder {data}", err=True)
        raise typer.Exit(Exit.FAILED)
    with ExitStack() as locks:
        try:
            locks.enter_context(store_lock(data))
            locks.enter_context(settle_lock(data))
        except (StoreLocked, AlreadySettling) as error:
            typer.echo(f"silt repair: {error}", err=True)
            raise typer.Exit(Exit.IN_USE) from None
        try:
            steps = plan_repair(data, SystemClock(), accept_lost_journal=accept_lost_journal)
        except (JournalError, ReadError, OSError) as error:
            typer.echo(f"silt repair: {error_text(error)}; run: silt verify", err=True)
            raise typer.Exit(Exit.FAILED) from None
        for step in steps:
            typer.echo(f"{step.table}: {step.what} ({step.why})")
        if steps and not yes:
            typer.confirm("Do this?", abort=True)
        try:
            for step in steps:
                step.do()
        except (JournalError, ReadError, OSError) as error:
            typer.echo(f"silt repair: {error_text(error)}; run: silt verify", err=True)
            raise typer.Exit(Exit.FAILED) from None
        typer.echo("done" if steps else "there is nothing that can be repaired safely")
        report = look(data, "repair")
    Output(Format.TEXT).table(COLUMNS, [tuple(map(str, one)) for one in report.findings])
    tell(report)
    if not report.is_whole:
        raise typer.Exit(Exit.FAILED)
