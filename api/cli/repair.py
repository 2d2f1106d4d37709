"""``silt repair``: repairs that lose nothing, announced first."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Final

import typer

from api.cli.endings import ended, reading
from api.cli.options import DataOption
from api.cli.output import Format, Output
from api.cli.verify import COLUMNS, look, tell
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.exit_codes import Exit
from conf.settings import load_settings
from delta_store.checking.repair_store import Planner
from delta_store.storage.lease import GATEWAY_LEASE, SETTLE_LEASE, LeaseTaken, exclusive
from delta_store.storage.store_lock import AlreadySettling, StoreLocked, settle_lock, store_lock
from delta_store.values.journal_errors import JournalError

_ADVICE: Final = "; run: silt verify"


def repair(
    data: DataOption,
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
    settings = load_settings()
    data = data.with_settings(settings.storage)
    if data.is_local and not data.folder.is_dir():
        raise ended("repair", f"there is no folder {data}")
    with _alone(data):
        with reading("repair", advice=_ADVICE):
            planner = Planner(data, SystemClock(), settings.history.horizon_seconds)
            steps = planner.plan(accept_lost_journal=accept_lost_journal)
        for step in steps:
            typer.echo(f"{step.table}: {step.what} ({step.why})")
        if steps and not yes:
            typer.confirm("Do this?", abort=True)
        with reading("repair", advice=_ADVICE):
            for step in steps:
                step.do()
        typer.echo("done" if steps else "there is nothing that can be repaired safely")
        report = look(data, "repair")
    Output(Format.TEXT).table(COLUMNS, [tuple(map(str, one)) for one in report.findings])
    tell(report)
    if not report.is_whole:
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _alone(data: DataLocation) -> Iterator[None]:
    """Hold the rights of gateway and settle job; ends the process with status 3 where another has one."""
    with ExitStack() as rights:
        try:
            if data.is_local:
                rights.enter_context(store_lock(data.folder))
                rights.enter_context(settle_lock(data.folder))
            else:
                for name in (GATEWAY_LEASE, SETTLE_LEASE):
                    rights.enter_context(exclusive(data, name, SystemClock()))
        except (StoreLocked, AlreadySettling, LeaseTaken) as error:
            raise ended("repair", error, Exit.IN_USE) from None
        except JournalError as error:
            raise ended("repair", error_text(error)) from None
        yield
