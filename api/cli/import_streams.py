"""``silt import``: streams of any JetStream brought here, with their consumers, and compared with their origin."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from api.cli import jetstream_run
from api.cli.connection import connected
from api.cli.endings import ended
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.demo.progress import progress
from api.moving.following import check, stay, way_by_hub, way_by_relay
from api.moving.link_access import link_access
from api.moving.moved_config import Json, OriginPrefixes, following_config, moved_config
from api.moving.origin import NotMoved, Origin
from api.moving.relay import RelayPrefix
from api.moving.relaying import RelayEnds, relaying
from api.moving.stream_comparison import StreamComparison
from api.moving.stream_import import Imported, StreamImport
from api.process.nats_context import NatsContext, UnknownContext, find_context
from conf.error_text import error_text
from conf.exit_codes import Exit
from consumers.client.api_call import Api
from consumers.client.errors import JetStreamError
from delta_store.archive.bad_archive import BadArchive
from ingest.protocol.link import without_secrets

AGAIN = "the same command again goes on: what is there already is compared, not copied"
FromOption = Annotated[str | None, typer.Option("--from", help="URL of the NATS server to import from.")]
FromContextOption = Annotated[
    str | None, typer.Option("--from-context", help="A context of the nats CLI with its login.")
]
DomainOption = Annotated[str | None, typer.Option("--domain", help="The domain of the origin's JetStream.")]


def import_streams(  # noqa: PLR0913  # options, by name
    streams: Annotated[list[str] | None, typer.Argument(metavar="[STREAM]...", help="The streams' names.")] = None,
    *,
    from_: FromOption = None,
    from_context: FromContextOption = None,
    domain: DomainOption = None,
    all_: Annotated[bool, typer.Option("--all", help="All streams of the origin.")] = False,
    as_mirror: Annotated[
        bool, typer.Option("--as-mirror", help="Keep them as mirrors, which Silt follows through its own hub.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep them as mirrors; stay, and relay where no hub connects both.")
    ] = False,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Bring streams of a JetStream here: messages, sequences, times, headers, consumers; buckets are streams, too.

    Each is shown when it is whole, and compared with its origin by checksums. An import that was cut off is begun again
    by the same command. Exit codes: 0 done; 1 it failed; 2 wrong usage; 4 no server.
    """
    if bool(streams) == all_:
        raise ended("import", "name the streams, or give --all", Exit.USAGE)
    where = origin_context("import", from_, from_context, domain)
    target_context = find_context(server, context, environment=os.environ, home=Path.home())
    console = Console(stderr=True)
    done: list[Imported] = []

    async def work(target: Api) -> None:
        async with origin_at(where) as origin, AsyncExitStack() as stack:
            here = await Origin.at(target, "Silt's server")
            names = streams or sorted(await origin.names())
            configured: Callable[[Json], Json] = moved_config
            if as_mirror or follow:
                way = await _way(origin, target, names, where)
                if isinstance(way, RelayPrefix) and not follow:
                    raise NotMoved("Silt's hub does not reach the origin: give --follow, and let this process run")
                if isinstance(way, RelayPrefix):
                    ends = RelayEnds(link_access(target_context), link_access(where), where.api_prefix)
                    await stack.enter_async_context(relaying(way, ends, names))
                    way = way.external
                configured = partial(following_config, origin=way)
            imports = StreamImport(StreamComparison(origin, here, partial(progress, console)), configured)
            for name in names:
                await _import_one(imports, name, done)
            Output(output).table(Imported._fields, done)
            done.clear()
            if follow:
                await stay(lambda: _again(target_context), names, console.print)

    try:
        jetstream_run.run_api(Verb("import", "a stream was deleted meanwhile"), work, server, context)
    except (NotMoved, BadArchive) as error:
        Output(output).table(Imported._fields, done)
        raise ended("import", error) from None


async def _way(origin: Origin, target: Api, names: Sequence[str], where: NatsContext) -> OriginPrefixes | RelayPrefix:
    """Return how mirrors reach the origin. Raises :class:`NotMoved` where a stream can't be followed."""
    await check(origin, target, names)
    by_hub = await way_by_hub(origin, target, names[0], domain=where.jetstream_domain) if names else None
    return by_hub or way_by_relay(where.shown_url, where.api_prefix)


async def _import_one(imports: StreamImport, name: str, done: list[Imported]) -> None:
    try:
        done.append(await imports.run(name))
    except (JetStreamError, OSError) as error:
        raise NotMoved(f"{name} broke off: {error_text(error)}; {AGAIN}") from error


def origin_context(verb: str, url: str | None, context: str | None, domain: str | None) -> NatsContext:
    """Return where the origin is; ends the process with status 2 where that is not said."""
    if url is None and context is None:
        raise ended(verb, "where from? --from nats://HOST:PORT, or --from-context NAME", Exit.USAGE)
    if url is not None and without_secrets(url) != url:
        raise ended(verb, "a login stands in a context of the nats CLI: give --from-context", Exit.USAGE)
    try:
        plain = NatsContext(url or "")
        found = find_context(url, context, environment=os.environ, home=Path.home()) if context else plain
    except UnknownContext as error:
        raise ended(verb, error, Exit.USAGE) from None
    return found if domain is None else replace(found, jetstream_domain=domain)


@asynccontextmanager
async def origin_at(context: NatsContext) -> AsyncIterator[Origin]:
    """Connect to an origin until the block ends. Raises ``ConnectionError`` or :class:`NotMoved`."""
    async with connected(context) as client:
        yield await Origin.at(Api(client, prefix=context.api_prefix), context.shown_url)


@asynccontextmanager
async def _again(context: NatsContext) -> AsyncIterator[Api]:
    async with connected(context) as client:
        yield Api(client, prefix=context.api_prefix)
