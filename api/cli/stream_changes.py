"""``silt stream diff|versions|history``: what changed between two points, what versions hold them, what is kept."""

from typing import Annotated, Any

import typer

from api.cli import jetstream_run
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import fixed
from consumers.client import JetStreamContext
from delta_store.dialect.durations import format_duration

NameArgument = Annotated[str, typer.Argument(help="The stream's name.")]
_CHANGES = ("subject", "change", "seq_before", "seq_after")
_VERSIONS = ("version", "committed", "first_seq", "last_seq", "first_ts", "last_ts")


def diff(  # noqa: PLR0913  # options, by name
    name: NameArgument,
    a: Annotated[str, typer.Argument(help="A point: a sequence (42), a time or an age (15m).")],
    b: Annotated[str | None, typer.Argument(help="A later point. Default: now.")] = None,
    *,
    subject: Annotated[str, typer.Option(help="Only subjects that match.")] = ">",
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List the subjects whose last message at one point is not the one at another."""
    body = {"from": fixed(a, "a"), "to": fixed(b, "b"), "filter": subject}

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await js.ask(f"STREAM.DIFF.{name}", body | {"offset": len(found)})
            found += page["changes"]
            if not page["changes"] or len(found) >= page["total"]:
                return [tuple(one[column] for column in _CHANGES) for one in found]

    Output(output).table(_CHANGES, jetstream_run.run(_verb(name), work, server, context))


def versions(
    name: NameArgument,
    point: Annotated[
        str | None, typer.Argument(help="Only the version that settled this point's last message.")
    ] = None,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List which versions of the table ``messages`` settled which messages, newest first."""
    body: dict[str, Any] = {} if point is None else {"silt_as_of": fixed(point, "point")}

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await js.ask(f"STREAM.VERSIONS.{name}", body)
            found += page["versions"]
            if point is not None or len(page["versions"]) < page["limit"]:
                return [tuple(one[column] for column in _VERSIONS) for one in found]
            body["before"] = found[-1]["version"]

    Output(output).table(_VERSIONS, jetstream_run.run(_verb(name), work, server, context))


def history(
    name: NameArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show how far back a stream can be read, and the bytes that are there for its past alone."""

    async def work(js: JetStreamContext) -> dict[str, Any]:
        return await js.ask(f"STREAM.HISTORY.{name}", {})

    found = jetstream_run.run(_verb(name), work, server, context)
    shown = {key: value for key, value in found.items() if key != "type"}
    if output is Format.TEXT:
        shown["history"] = format_duration(found["history"])
    Output(output).record(shown, title=name)


def _verb(name: str) -> Verb:
    return Verb("stream", f"there is no stream {name!r}; silt stream ls lists those that there are")
