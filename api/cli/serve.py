"""``silt serve``: readers alone, as many as wanted."""

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
    domain: Annotated[str, typer.Option(help="Answer $JS.<domain>.API.DIRECT.GET.> instead.")] = "",
) -> None:
    """Answer HTTP, and Direct Get over NATS, from the tables; holds no lock, so any number may run.

    Exit codes: 0 stopped as asked; 1 it failed.
    """
    options = [] if http_port is None else ["--http-port", str(http_port)]
    options += [] if nats is None else ["--nats", nats]
    options += [] if leaf is None else ["--leaf", leaf]
    options += ["--domain", domain] if domain else []
    sys.argv = ["silt serve", "--data", str(data), *options]
    runpy.run_module("api.serve_main", run_name="__main__", alter_sys=True)
