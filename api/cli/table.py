"""``silt table ls|show|schema``: the typed tables of streams with a schema, read where they lie."""

from typing import TYPE_CHECKING, Annotated

import typer

from api.cli.endings import ended, reading
from api.cli.options import DataOption
from api.cli.output import Format, Output, OutputOption
from conf.data_location import DataLocation
from conf.exit_codes import EPILOG, Exit
from conf.settings import load_settings

if TYPE_CHECKING:
    from delta_store.beside.typed_reader import TypedTableRead

TABLES = ("table", "stream", "kind", "rows", "seq", "columns", "files", "bytes", "version")

app = typer.Typer(
    help="Show the typed tables of streams that have a schema (docs/typed-tables.md).",
    epilog=EPILOG,
    no_args_is_help=True,
)
StreamArgument = Annotated[str, typer.Argument(help="The stream's name.")]
DeadLettersOption = Annotated[bool, typer.Option("--dlq", help="The messages that do not have the schema instead.")]


@app.command("ls")
def ls(*, data: DataOption, output: OutputOption = Format.TEXT) -> None:
    """List the tables, with the last sequence that each has taken in."""
    from delta_store.beside.typed_reader import read_tables

    data = data.with_settings(load_settings().storage)
    with reading("table"):
        rows = [
            (
                one.folder,
                one.stream,
                one.kind,
                one.state.rows,
                one.seq,
                len(one.columns.columns),
                len(one.state.files),
                sum(file.size for file in one.state.files.values()),
                one.state.version,
            )
            for one in read_tables(data.uri, data.options)
        ]
    Output(output).table(TABLES, rows)


@app.command("show")
def show(
    stream: StreamArgument,
    *,
    data: DataOption,
    dlq: DeadLettersOption = False,
    limit: Annotated[int, typer.Option(min=1, help="How many rows.")] = 20,
    output: OutputOption = Format.TEXT,
) -> None:
    """Show the newest rows of a stream's table."""
    with reading("table"):
        rows = _table(data, stream, dlq=dlq).newest(limit)
    Output(output).table(rows.column_names, [tuple(row.values()) for row in rows.to_pylist()])


@app.command("schema")
def schema(
    stream: StreamArgument, *, data: DataOption, dlq: DeadLettersOption = False, output: OutputOption = Format.TEXT
) -> None:
    """Show the columns of a stream's table."""
    from delta_store.typed.column_types import sql_type

    with reading("table"):
        columns = _table(data, stream, dlq=dlq).columns.columns
    Output(output).table(("column", "type"), [(column.name, sql_type(column.type)) for column in columns])


def _table(data: DataLocation, stream: str, *, dlq: bool) -> "TypedTableRead":
    """Return a stream's table; ends the process with status 5 if it has none."""
    from delta_store.beside.typed_reader import read_table

    data = data.with_settings(load_settings().storage)
    found = read_table(data.uri, data.options, stream, dead_letters=dlq)
    if found is None:
        reason = f"stream {stream!r} has no table at {data}: give it a schema in its metadata (silt.schema); "
        raise ended("table", reason + "silt table ls lists the tables that there are", Exit.NOT_FOUND)
    return found
