"""The entry point of the ``silt`` command.

``silt gateway`` and ``silt sql`` must answer within a second of their start: they import neither typer nor rich, ``silt
sql`` but for its rarer options. Of the other verbs only the one that runs is imported. Invalid settings are refused
here, and so also by commands that use none.
"""

import runpy
import sys

from conf.exit_codes import Exit
from conf.setting_sources import SettingsError, check_settings

SETS_BY_ARGUMENT = ("up", "gateway", "serve", "settle")
"""Verbs that load the settings themselves, as an argument may replace an invalid one."""


def run() -> None:
    """Run the command line in ``sys.argv`` and end the process with the verb's exit code."""
    try:
        if sys.argv[1:] and sys.argv[1] not in SETS_BY_ARGUMENT and not {"--help", "--version"} & set(sys.argv):
            check_settings()
        _run()
    except SettingsError as error:
        sys.stderr.write(f"silt: {error}\n")
        sys.exit(Exit.USAGE)
    except OSError as error:
        from conf.error_text import error_text

        sys.stderr.write(f"silt {sys.argv[1]}: {error_text(error)}\n")
        sys.exit(Exit.FAILED)


def _run() -> None:
    if sys.argv[1:2] == ["gateway"] and not {"--help", "-h"} & set(sys.argv[2:]):
        sys.argv = ["silt gateway", *sys.argv[2:]]
        runpy.run_module("api.gateway.gateway_main", run_name="__main__", alter_sys=True)
        return
    if sys.argv[1:2] == ["sql"]:
        from api.cli.plain_sql import run_plain

        if (status := run_plain(sys.argv[2:])) is not None:
            sys.exit(status)
    from api.cli.verbs import command_line

    command_line(*sys.argv[1:2])(prog_name="silt")


if __name__ == "__main__":
    run()
