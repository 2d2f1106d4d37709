"""``silt cut``: named points over all streams."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from api.cli import jetstream_run
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from consumers.client import JetStreamContext
from delta_store.values.as_of import NotAPoint, cut_name

if TYPE_CHECKING:
    from typer._click.core import Context

_COLUMNS = ("name", "time")
_SECONDS = 30.0
_VERB = Verb("cut", "there is no such stream")


class _OrName(TyperGroup):
    """A group whose arguments name a cut to take where they begin with none of its verbs."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Put the verb before a name."""
        named = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().parse_args(ctx, ["take", *args] if named else args)


app = typer.Typer(cls=_OrName, help="Name points over all streams, to read as of them.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="The cut's name: letters, digits, _ and -.")]


@app.command("take")
def take(
    name: NameArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Name the point that all streams are at; the word take may be left out.

    Nothing stops for it. Wherever a point is asked for, cut:NAME is one. Exit codes: 0 done; 1 refused, also where the
    name is taken; 2 no name; 4 no server.
    """
    found = jetstream_run.ask(_VERB, (f"CUT.CREATE.{_checked(name)}", {}), server, context, seconds=_SECONDS)
    Output(output).record({key: found[key] for key in (*_COLUMNS, "streams")})


@app.command("ls")
def ls(*, server: ServerOption = None, context: ContextOption = None, output: OutputOption = Format.TEXT) -> None:
    """List the cuts, oldest first."""

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await js.ask("CUT.LIST", {"offset": len(found)})
            found += page["cuts"]
            if not page["cuts"] or len(found) >= page["total"]:
                return [tuple(one[column] for column in _COLUMNS) for one in found]

    Output(output).table(_COLUMNS, jetstream_run.run(_VERB, work, server, context))


@app.command("rm")
def rm(
    name: NameArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
) -> None:
    """Forget a cut. Exit codes: 0 done; 1 refused, also where there is none of this name; 4 no server."""
    jetstream_run.ask(_VERB, (f"CUT.DELETE.{_checked(name)}", {}), server, context, seconds=_SECONDS)


def _checked(name: str) -> str:
    try:
        return cut_name(name)
    except NotAPoint as error:
        raise typer.BadParameter(str(error), param_hint="name") from None
