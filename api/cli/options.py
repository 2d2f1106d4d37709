"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path,
    typer.Option(
        "--data", envvar="SILT_DATA", file_okay=False, resolve_path=True, help="Folder that holds the tables and logs."
    ),
]
ServerOption = Annotated[str | None, typer.Option("--server", "-s", envvar="NATS_URL", help="URL of the NATS server.")]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", envvar="NATS_CONTEXT", help="A context of the nats CLI (default: the selected one)."),
]
