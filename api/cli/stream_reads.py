"""``silt stream get|dump``: messages, now and at any point within the history horizon."""

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from api.cli import jetstream_run
from api.cli.jetstream_run import NotDirect, Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed
from consumers.client import JetStreamContext, StoredMessage, Stream
from consumers.client.direct_get import ALL
from consumers.client.errors import NothingFound

COLUMNS = ("seq", "subject", "time", "headers", "data")
NameArgument = Annotated[str, typer.Argument(help="The stream's name.")]


def get(  # noqa: PLR0913  # options, by name
    name: NameArgument,
    seq: Annotated[int | None, typer.Argument(help="The message's sequence.", min=1)] = None,
    *,
    last_for: Annotated[str | None, typer.Option(help="The last message of this subject.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the payload alone, byte for byte.")] = False,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Print one message; status 5 when it is not there at that point."""
    if (seq is None) == (last_for is None):
        raise typer.BadParameter("give a sequence or --last-for")
    point = fixed(as_of)

    async def work(js: JetStreamContext) -> StoredMessage:
        stream = await js.get_stream(name)
        return await stream.get_msg(seq, last_for=last_for, direct=False, as_of=point)

    found = jetstream_run.run(_verb(name), work, server, context)
    if raw:
        sys.stdout.buffer.write(found.data)
        sys.stdout.buffer.flush()
    else:
        Output(output).record(dict(zip(COLUMNS, _row(found), strict=True)))


def dump(  # noqa: PLR0913  # options, by name
    name: NameArgument,
    *,
    subject: Annotated[str | None, typer.Option(help="Only messages whose subject matches.")] = None,
    from_seq: Annotated[int, typer.Option(help="Only messages from this sequence on.", min=1)] = 1,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.NDJSON,
) -> None:
    """Print a stream's messages, all of one point."""
    point = fixed(as_of)

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        stream = await js.get_stream(name)
        if not stream.cached_info.config.allow_direct:
            raise NotDirect(
                f"this needs Direct Get, which {name} does not allow: nats stream edit {name} --allow-direct"
            )
        return [_row(one) async for one in _all(stream, subject, from_seq, point)]

    Output(output).table(COLUMNS, jetstream_run.run(_verb(name), work, server, context))


async def _all(stream: Stream, subject: str | None, from_seq: int, point: str | None) -> AsyncIterator[StoredMessage]:
    try:
        async for message in stream.get_batch(ALL, seq=from_seq, subject=subject, as_of=point):
            yield message
    except NothingFound:
        return


def _verb(name: str) -> Verb:
    return Verb("stream", f"there is no stream {name!r}; silt stream ls lists those that there are")


def _row(message: StoredMessage) -> tuple[Any, ...]:
    time = datetime.fromtimestamp(message.timestamp_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return message.seq, message.subject, time, dict(message.headers), message.data.decode(errors="replace")
