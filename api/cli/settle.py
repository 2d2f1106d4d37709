"""``silt settle``: the Spark job alone."""

import runpy
import sys
from typing import Annotated

import typer

from api.cli.options import DataOption


def settle(
    data: DataOption,
    *,
    master: Annotated[str | None, typer.Option(help="Spark master; by default the settings'.")] = None,
    remote: Annotated[str | None, typer.Option(help="Spark Connect server, sc://host:port; or SPARK_REMOTE.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Settle what is there, then end.")] = False,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="By a query for what is there, again and again.")
    ] = False,
    stand_by: Annotated[
        bool, typer.Option("--stand-by", help="Wait for the end of another settle job on a folder; a bucket's is.")
    ] = False,
) -> None:
    """Carry the journal into the messages table, apply limits, compact and clean up. Needs Java 17 or 21.

    Exit codes: 0 stopped as asked; 1 it failed; 3 another settle job runs on the folder.
    """
    arguments = ["--data", str(data)]
    arguments += ["--master", master] if master else []
    arguments += ["--remote", remote] if remote else []
    arguments += ["--once"] if once else []
    arguments += ["--available-now"] if available_now else []
    arguments += ["--stand-by"] if stand_by else []
    sys.argv = ["silt settle", *arguments]
    runpy.run_module("delta_store.settling.settle_main", run_name="__main__", alter_sys=True)
