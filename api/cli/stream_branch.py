"""``silt stream branch|rewind|undelete``: streams made of the past, requested over NATS."""

from typing import Annotated, Any

import typer

from api.cli import jetstream_run
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import fixed
from delta_store.values.point_shape import AS_OF

_WAIT_SECONDS = 3600.0
_POINT = "A sequence, a time such as 2026-01-31T12:00:00Z, or an age such as 15m."

WaitOption = Annotated[float, typer.Option("--wait", help="Seconds to wait for the end; the server goes on behind it.")]


def branch(  # noqa: PLR0913  # options, by name
    source: Annotated[str, typer.Argument(metavar="NAME[@POINT]", help=f"The stream. {_POINT} Without, now.")],
    new: Annotated[str, typer.Argument(help="The new stream's name.")],
    *,
    subjects: Annotated[
        list[str] | None, typer.Option("--subjects", help="A subject that it takes (its name by default); repeat it.")
    ] = None,
    consumers: Annotated[
        bool, typer.Option("--consumers", help="With the durable consumers, not past the point.")
    ] = False,
    wait: WaitOption = _WAIT_SECONDS,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Make a new, independent stream that stands as another one stood at a point.

    It has the messages of that point with their sequences and times, and the configuration of then, but takes other
    subjects, copies from nowhere, republishes nothing, and nothing in it expires. It is shown when it is whole. Exit
    codes: 0 done; 1 refused; 4 no server; 5 no such stream.
    """
    name, at, point = source.partition("@")
    body: dict[str, Any] = {"name": new, "consumers": consumers, "config": {"subjects": subjects} if subjects else {}}
    if at:
        body[AS_OF] = fixed(point, "NAME@POINT")
    request = (f"STREAM.BRANCH.{name}", body)
    found = jetstream_run.ask(_verb("branch", name), request, server, context, seconds=wait)
    shown = found if output is Format.JSON else {"stream": new, **found["state"]}
    Output(output).record(shown)


def rewind(  # noqa: PLR0913  # options, by name
    name: Annotated[str, typer.Argument(help="The stream's name.")],
    *,
    to: Annotated[str, typer.Option("--to", metavar="POINT", help=_POINT)],
    force: Annotated[bool, typer.Option("--force", help="Although consumers have seen what came after it.")] = False,
    wait: WaitOption = _WAIT_SECONDS,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Make a stream stand as it stood at a point, by one commit that can itself be rewound.

    What came after the point is removed, not erased. What has left since comes back behind it as new messages, in
    order; sequences never go back. Exit codes: 0 done; 1 refused; 4 no server; 5 no such stream.
    """
    request = (f"STREAM.REWIND.{name}", {AS_OF: fixed(to, "--to"), "force": force})
    Output(output).record(_told(jetstream_run.ask(_verb("rewind", name), request, server, context, seconds=wait)))


def undelete(  # noqa: PLR0913  # options, by name
    name: Annotated[str, typer.Argument(help="The stream's name.")],
    *,
    since: Annotated[str, typer.Option("--from", metavar="POINT", help=f"When they were there. {_POINT}")],
    seqs: Annotated[
        list[str] | None, typer.Option("--seq", help="A sequence, or a range such as 5-9; repeat it.")
    ] = None,
    subject: Annotated[str, typer.Option("--subject", help="Of the messages; wildcards are possible.")] = "",
    wait: WaitOption = _WAIT_SECONDS,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Bring back messages that limits, deletes or purges have removed, as new messages behind all others.

    Erased messages don't come back. Exit codes: 0 done; 1 refused; 4 no server; 5 no such stream.
    """
    request = (f"STREAM.UNDELETE.{name}", {AS_OF: fixed(since, "--from"), "seqs": seqs or [], "filter": subject})
    Output(output).record(_told(jetstream_run.ask(_verb("undelete", name), request, server, context, seconds=wait)))


def _verb(name: str, stream: str) -> Verb:
    return Verb(f"stream {name}", f"there is no stream {stream!r}; silt stream ls lists those that there are")


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("type", "success")}
