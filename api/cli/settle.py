"""``silt settle``: the Spark job alone."""

import runpy
import sys
from typing import Annotated

import typer

from api.cli.options import DataOption


def settle(
    data: DataOption,
    *,
    once: Annotated[bool, typer.Option("--once", help="Settle what is there, then end.")] = False,
) -> None:
    """Carry the journal into the messages table, apply limits, compact and clean up. Needs Java 17 or 21.

    Exit codes: 0 stopped as asked; 1 it failed; 3 another settle job runs on the folder.
    """
    sys.argv = ["silt settle", "--data", str(data), *(["--once"] if once else [])]
    runpy.run_module("delta_store.settling.settle_main", run_name="__main__", alter_sys=True)
