"""The option ``--as-of`` of the verbs that read the past."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from conf.clock import SystemClock
from delta_store.values.as_of import AsOf, NotAPoint, parse_as_of

AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="A sequence (42), a time (2026-01-31T12:00:00Z), an age (15m, 2d12h) or cut:NAME. Default: now."
    ),
]


def point_option(text: str | None, hint: str = "--as-of") -> AsOf:
    """Parse a point; what is none ends the process with status 2."""
    try:
        return parse_as_of(text, now=datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC))
    except NotAPoint as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def fixed(text: str | None, hint: str = "--as-of") -> str | None:
    """Return a point as requests write it; an age becomes the time that it means now, for all requests alike."""
    return point_option(text, hint).text
