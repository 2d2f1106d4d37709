"""What verbs on messages do alike: connect, ask by the client, and say by the exit code what went wrong."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer

from api.cli.connection import connected
from api.process.nats_context import NatsContext, UnknownContext, find_context
from conf.error_text import error_text
from conf.exit_codes import Exit
from consumers.client import JetStreamContext, JetStreamError
from consumers.client.api_call import Api
from consumers.client.errors import MessageNotFound, NoResponders, NothingFound, StreamNotFound, TooManySubjects

T = TypeVar("T")


class Absent(LookupError):
    """What is asked for is not there at that point, or the point is still to come."""


class NotDirect(RuntimeError):
    """The stream has ``allow_direct`` off, which this read needs."""


class Verb(NamedTuple):
    """The words of a verb's errors."""

    name: str
    """Behind ``silt``."""
    missing: str
    """Where there is no such stream."""


def run(
    verb: Verb, work: Callable[[JetStreamContext], Coroutine[Any, Any, T]], server: str | None, context: str | None
) -> T:
    """Connect, do ``work``, disconnect; a failure ends the process with its exit code."""
    return run_api(verb, lambda api: work(JetStreamContext(api.client, prefix=api.prefix)), server, context)


def run_api(verb: Verb, work: Callable[[Api], Coroutine[Any, Any, T]], server: str | None, context: str | None) -> T:
    """Do as :func:`run`, with the API itself."""
    try:
        found = find_context(server, context, environment=os.environ, home=Path.home())
        return asyncio.run(_work(work, found))
    except UnknownContext as error:
        code, text = Exit.USAGE, str(error)
    except StreamNotFound:
        code, text = Exit.NOT_FOUND, verb.missing
    except Absent as error:
        code, text = Exit.NOT_FOUND, str(error)
    except (MessageNotFound, NothingFound):
        code, text = Exit.NOT_FOUND, "there is no such message"
    except TooManySubjects:
        code, text = Exit.FAILED, "too many subjects match: give a filter"
    except (NoResponders, OSError) as error:
        code, text = Exit.UNREACHABLE, error_text(error)
    except (JetStreamError, NotDirect) as error:
        code, text = Exit.FAILED, error_text(error)
    typer.echo(f"silt {verb.name}: {text}", err=True)
    raise typer.Exit(code)


def ask(
    verb: Verb, request: tuple[str, dict[str, Any]], server: str | None, context: str | None, *, seconds: float
) -> dict[str, Any]:
    """Send one request (its verb and body) that may take so long, and return the reply; otherwise as :func:`run`."""

    async def asked(api: Api) -> dict[str, Any]:
        return await Api(api.client, prefix=api.prefix, timeout=seconds).call(*request)

    return run_api(verb, asked, server, context)


async def _work(work: Callable[[Api], Coroutine[Any, Any, T]], context: NatsContext) -> T:
    async with connected(context) as client:
        return await work(Api(client, prefix=context.api_prefix))
