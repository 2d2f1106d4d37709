"""``silt stream ls|info|report`` and the verbs of messages and the past: the streams, requested over NATS."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from api.cli.connection import connected
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed
from api.cli.stream_backup import backup, restore
from api.cli.stream_branch import branch, rewind, undelete
from api.cli.stream_changes import diff, history, versions
from api.cli.stream_reads import dump, get
from api.process.nats_context import NatsContext, UnknownContext, find_context
from conf.error_text import error_text
from conf.exit_codes import EPILOG, Exit

REQUEST_SECONDS = 5.0
SETTLING_SECONDS = 1.0
"""nats-server does not answer this request."""
STREAM_NOT_FOUND = 10059
REPORT = ("stream", "messages", "bytes", "first_seq", "last_seq", "last_time", "subjects", "deleted", "consumers")

app = typer.Typer(
    help="Show streams, now or as of a point in the past, and make use of it.", epilog=EPILOG, no_args_is_help=True
)
app.command("get")(get)
app.command("dump")(dump)
app.command("diff")(diff)
app.command("versions")(versions)
app.command("history")(history)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("branch")(branch)
app.command("rewind")(rewind)
app.command("undelete")(undelete)


class ApiRefused(RuntimeError):
    """The JetStream API answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('description')} ({error.get('err_code')})")
        self.err_code = error.get("err_code")


T = TypeVar("T")
Ask = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]
"""Sends one API request (subject without prefix, JSON body) and returns its reply."""


@app.command("ls")
def ls(
    *,
    subject: Annotated[str | None, typer.Option(help="Only streams that take this subject.")] = None,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List the streams; as of a point those that there were of those that there are."""
    point = fixed(as_of)
    streams = _run(lambda ask: _list(ask, subject) if point is None else _then(ask, subject, point), server, context)
    columns = ("name", "description", "subjects", "created", "messages", "bytes", "last_time")
    rows = [
        (
            info["config"]["name"],
            info["config"].get("description", ""),
            info["config"].get("subjects", []),
            info["created"],
            info["state"]["messages"],
            info["state"]["bytes"],
            info["state"]["last_ts"],
        )
        for info in streams
    ]
    Output(output).table(columns, rows)


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(help="The stream's name.")],
    *,
    subjects: Annotated[str | None, typer.Option(help="Count the messages of subjects that match, too.")] = None,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show a stream's configuration and state."""
    point = fixed(as_of)
    body: dict[str, Any] = {"subjects_filter": subjects} if subjects else {}
    body |= {"silt_as_of": point} if point else {}
    found = _run(lambda ask: ask(f"STREAM.INFO.{name}", body), server, context, stream=name)
    if output is Format.JSON:
        Output(output).record(found)
        return
    shown = {f"config.{key}": value for key, value in found["config"].items()}
    shown |= {f"state.{key}": value for key, value in found["state"].items()}
    Output(output).record({"created": found["created"], **shown}, title=name)


@app.command("report")
def report(*, server: ServerOption = None, context: ContextOption = None, output: OutputOption = Format.TEXT) -> None:
    """Show the size of every stream, and on standard error how settling is."""
    streams, settling = _run(_reported, server, context)
    rows = [
        (
            info["config"]["name"],
            state["messages"],
            state["bytes"],
            state["first_seq"],
            state["last_seq"],
            state["last_ts"],
            state.get("num_subjects", 0),
            state.get("num_deleted", 0),
            state["consumer_count"],
        )
        for info in streams
        for state in [info["state"]]
    ]
    Output(output).table(REPORT, rows)
    if settling is not None:
        typer.echo(_settling_line(settling), err=True)


def _settling_line(told: dict[str, Any]) -> str:
    """Return the state of settling in words; a gateway that has just started does not know it yet."""
    if "rows" not in told:
        return "settling: not looked at yet"
    why = f" ({told['why']})" if told.get("why") else ""
    behind = f"{told['rows']} rows, {told['seconds']:.0f} s behind" if told["rows"] else "nothing is behind"
    return f"settling: {told.get('state', 'state unknown')}{why}; {behind}; {told['used']:.0%} of what may wait"


async def _reported(ask: Ask) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return all streams and the state of settling, None if the server is not Silt."""
    streams = await _list(ask, None)
    try:
        async with asyncio.timeout(SETTLING_SECONDS):
            return streams, await ask("SETTLING", {})
    except (TimeoutError, OSError, ApiRefused):
        return streams, None


async def _list(ask: Ask, subject: str | None) -> list[dict[str, Any]]:
    """Return all pages of STREAM.LIST."""
    found: list[dict[str, Any]] = []
    while True:
        body: dict[str, Any] = {"offset": len(found)} | ({"subject": subject} if subject else {})
        page = await ask("STREAM.LIST", body)
        streams = page.get("streams") or []
        found += streams
        if not streams or len(found) >= page["total"]:
            return found


async def _then(ask: Ask, subject: str | None, point: str) -> list[dict[str, Any]]:
    """Return the streams that there were at a point, of those that there are."""
    found: list[dict[str, Any]] = []
    for info in await _list(ask, subject):
        try:
            found.append(await ask(f"STREAM.INFO.{info['config']['name']}", {"silt_as_of": point}))
        except ApiRefused as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
    return found


def _run(
    work: Callable[[Ask], Coroutine[Any, Any, T]], server: str | None, context: str | None, *, stream: str = ""
) -> T:
    """Connect, do ``work``, disconnect; a failure ends the process with its exit code."""
    try:
        found = find_context(server, context, environment=os.environ, home=Path.home())
        return asyncio.run(_work(work, found))
    except UnknownContext as error:
        code, text = Exit.USAGE, str(error)
    except ApiRefused as error:
        code, text = Exit.FAILED, str(error)
        if error.err_code == STREAM_NOT_FOUND:
            code, text = Exit.NOT_FOUND, f"there is no stream {stream!r}; silt stream ls lists those that there are"
    except OSError as error:
        code, text = Exit.UNREACHABLE, error_text(error)
    typer.echo(f"silt stream: {text}", err=True)
    raise typer.Exit(code)


async def _work(work: Callable[[Ask], Coroutine[Any, Any, T]], context: NatsContext) -> T:
    from nats.errors import Error, NoRespondersError

    async with connected(context) as client:

        async def ask(subject: str, body: dict[str, Any]) -> dict[str, Any]:
            payload = json.dumps(body).encode() if body else b""
            try:
                reply = await client.request(f"{context.api_prefix}.{subject}", payload, timeout=REQUEST_SECONDS)
            except NoRespondersError as error:
                raise ConnectionError(
                    f"nobody serves {context.api_prefix} at {context.shown_url}: start silt up"
                ) from error
            except Error as error:
                raise ConnectionError(
                    f"no answer from {context.shown_url} to {subject}: {error_text(error)}"
                ) from error
            answer: dict[str, Any] = json.loads(reply.data)
            if "error" in answer:
                raise ApiRefused(answer["error"])
            return answer

        return await work(ask)
