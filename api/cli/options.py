"""Options of several verbs."""

from typing import Annotated, Any

import typer

from conf.data_location import DataLocation, data_location


def location_option(text: str | DataLocation) -> DataLocation:
    """Parse a data location; what is none, or a file, ends the process with status 2."""
    try:
        location = data_location(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if location.is_local and location.folder.is_file():
        raise typer.BadParameter(f"{location} is a file, not a folder")
    return location


def data_option(
    text: str = "Folder, or URL of an object store (s3://, gs://, az://), that holds the tables.",
    *also: str,
    variable: str | None = "SILT_DATA",
) -> Any:
    """Return the option ``--data`` with its help text and further names."""
    return typer.Option("--data", *also, envvar=variable, parser=location_option, metavar="LOCATION", help=text)


DataOption = Annotated[DataLocation, data_option()]
ServerOption = Annotated[str | None, typer.Option("--server", "-s", envvar="NATS_URL", help="URL of the NATS server.")]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", envvar="NATS_CONTEXT", help="A context of the nats CLI (default: the selected one)."),
]
