"""The command line, composed of its verbs; only the one that runs is imported, as the others cost time."""

from importlib import import_module
from typing import Annotated, Final

import typer

from conf.exit_codes import EPILOG

COMMANDS: Final = (
    "up",
    "gateway",
    "settle",
    "serve",
    "sql",
    "views",
    "import",
    "cutover",
    "doctor",
    "verify",
    "repair",
)
GROUPS: Final = ("stream", "cut", "kv", "object", "table", "key")
ALL: Final = (*COMMANDS, *GROUPS, "demo")
"""In the order of the help; each is in the module of ``api.cli`` with its name, but for words of Python."""
_MODULES: Final = {"import": "import_streams"}
HELP: Final = "Silt: a stream store with the NATS JetStream API in front and open Delta Lake tables behind."


def command_line(first: str = "") -> typer.Typer:
    """Return the command line with the verb ``first``, or with all if there is no such verb."""
    app = typer.Typer(
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True, help=HELP)(_silt)
    for name in (first,) if first in ALL else ALL:
        module = _MODULES.get(name, name)
        verb = import_module(f"api.cli.{module}")
        if name in GROUPS:
            app.add_typer(verb.app, name=name)
        else:
            app.command(name, context_settings=getattr(verb, "CONTEXT", None))(getattr(verb, module))
    return app


def _silt(*, version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"silt {version_of('silt')}")
        raise typer.Exit
