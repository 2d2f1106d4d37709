"""Where the ``silt`` command begins.

``silt gateway`` must answer within a second of its start, so it goes to its process at once: neither typer nor
rich is imported on that way.
"""

import runpy
import sys


def run() -> None:
    """Run the command line in ``sys.argv``; ends the process with the verb's exit code."""
    if sys.argv[1:2] == ["gateway"] and not {"--help", "-h"} & set(sys.argv[2:]):
        sys.argv = ["silt gateway", *sys.argv[2:]]
        runpy.run_module("api.gateway_main", run_name="__main__", alter_sys=True)
        return
    from api.cli.app import app

    app(prog_name="silt")
