"""``silt gateway``: its help text only; ``api.cli.main`` starts the gateway's process without importing this."""

import runpy
import sys

import typer

CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True}


def gateway(context: typer.Context) -> None:
    """Join a NATS server and take messages in: silt gateway --nats URL --leaf URL --data DIR [--domain D].

    May be started before the server; attaches as soon as its listeners open, and again after each loss, and answers
    that it is opening its store while that takes long. It needs no Java. Exit codes: 0 drained and stopped; 1 it
    failed; 3 another gateway took over.
    """
    sys.argv = ["silt gateway", *context.args]
    runpy.run_module("api.gateway.gateway_main", run_name="__main__", alter_sys=True)
