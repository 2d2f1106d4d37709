"""``silt demo``: a year of flights, and three ways to read the past."""

from typing import Annotated, Final

import typer

from api.cli.endings import ended
from api.cli.options import data_option
from conf.data_location import DataLocation
from conf.settings import load_settings

_KEEP: Final = data_option(
    "Keep the tables in this new folder, or at this URL (default: a temporary folder).", "--keep", variable=None
)


def demo(
    *,
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Publish only the first so many flights (default: all 336,776).")
    ] = None,
    keep: Annotated[DataLocation | None, _KEEP] = None,
) -> None:
    """Publish 336,776 real flights through NATS, then ask for the past by NATS, REST and SQL, and compare.

    Starts "silt up" by itself and stops it at the end. Exit codes: 0 all answers were equal; 1 they were not, or a
    part could not be started.
    """
    from api.demo.play import DemoFailed, play

    try:
        play(rows=rows, keep=keep and keep.with_settings(load_settings().storage))
    except DemoFailed as error:
        raise ended("demo", error) from None
