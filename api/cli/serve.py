"""``silt serve``: a reader without a gateway."""

import runpy
import sys
from typing import Annotated

import typer

from api.cli.options import DataOption


def serve(
    data: DataOption,
    *,
    http_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the HTTP API; 0 takes a free one.")
    ] = None,
    nats: Annotated[str | None, typer.Option(help="NATS server to answer Direct Get at; without it only HTTP.")] = None,
    leaf: Annotated[str | None, typer.Option(help="Leafnode port of that server; answers leave through it.")] = None,
    domain: Annotated[str | None, typer.Option(help="Answer $JS.<domain>.API.DIRECT.GET.> instead.")] = None,
    http_only: Annotated[
        bool, typer.Option("--http-only", help="No Direct Get, also where the settings name a NATS server.")
    ] = False,
) -> None:
    """Answer HTTP, and Direct Get over NATS, from the tables; holds no lock, so any number may run.

    Exit codes: 0 stopped as asked; 1 it failed.
    """
    given = {"--http-port": http_port, "--nats": nats, "--leaf": leaf, "--domain": domain}
    options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
    options += ["--http-only"] if http_only else []
    sys.argv = ["silt serve", "--data", str(data), *options]
    runpy.run_module("api.rest.serve_main", run_name="__main__", alter_sys=True)
