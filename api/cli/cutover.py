"""``silt cutover``: a mirror that follows a stream of another JetStream takes its place."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from api.cli import jetstream_run
from api.cli.endings import ended
from api.cli.import_streams import DomainOption, FromContextOption, FromOption, origin_at, origin_context
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.demo.progress import progress
from api.moving.cutover import CutOver, Cutover
from api.moving.origin import NotMoved, Origin
from api.moving.stream_comparison import StreamComparison
from api.moving.stream_import import stream_info
from conf.clock import SystemClock
from consumers.client.api_call import Api
from delta_store.archive.bad_archive import BadArchive
from ingest.origins.origin_messages import RELAYED


def cutover(  # noqa: PLR0913  # options, by name
    streams: Annotated[list[str], typer.Argument(metavar="STREAM...", help="The streams' names.")],
    *,
    from_: FromOption = None,
    from_context: FromContextOption = None,
    domain: DomainOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Let streams that `silt import --follow` has brought take their origin's place: subjects and consumers, too.

    The origin keeps its messages, with its subjects parked and its consumers paused. Where the mirror goes through
    Silt's own hub, --from may be left out. Exit codes: 0 done; 1 it failed, and the origin goes on; 2 wrong usage; 4 no
    server.
    """
    where = origin_context("cutover", from_, from_context, domain) if from_ or from_context else None
    console = Console(stderr=True)
    done: list[CutOver] = []

    async def cut(origin: Origin, target: Api, name: str) -> None:
        here = await Origin.at(target, "Silt's server")
        comparison = StreamComparison(origin, here, partial(progress, console))
        done.append(await Cutover(comparison, SystemClock().monotonic).run(name))

    async def work(target: Api) -> None:
        async with AsyncExitStack() as stack:
            said = await stack.enter_async_context(origin_at(where)) if where is not None else None
            for name in streams:
                await cut(said or await _by_hub(target, name), target, name)

    try:
        jetstream_run.run_api(Verb("cutover", "a stream was deleted meanwhile"), work, server, context)
    except (NotMoved, BadArchive) as error:
        raise ended("cutover", error) from None
    finally:
        Output(output).table(CutOver._fields, done)


async def _by_hub(target: Api, name: str) -> Origin:
    """Return a mirror's origin as Silt's own hub reaches it. Raises :class:`NotMoved`."""
    info = await stream_info(target, name)
    mirror = info["config"].get("mirror") if info is not None else None
    if mirror is None:
        raise NotMoved(f"{name} is no mirror here; silt import --follow {name} makes it, to be cut over")
    prefix: str = (mirror.get("external") or {}).get("api", "")
    if not prefix or prefix.startswith(RELAYED):
        raise NotMoved(f"{name} follows its origin through a relay: say where that is (--from, --from-context)")
    return await Origin.at(Api(target.client, prefix=prefix), "Silt's hub")
