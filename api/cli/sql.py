"""``silt sql``: queries of the streams, now and at any point of their past.

Its plain uses don't come here: see :mod:`api.cli.plain_sql`.
"""

from pathlib import Path
from typing import Annotated

import typer

from api.cli.options import data_option
from api.cli.sql_command import Engine, SqlArguments, WrongUse, run_sql
from api.formats.table_format import TableFormat
from conf.data_location import DataLocation
from conf.exit_codes import Exit

_Statement = Annotated[
    str | None, typer.Argument(metavar="[STATEMENT]", help='For example: SELECT count(*) FROM "ORDERS"')
]
_Data = Annotated[DataLocation | None, data_option()]
_File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Run the statements in a file; - is standard input.")
]
_Http = Annotated[str | None, typer.Option("--http", metavar="URL", help="Ask a running server instead of the tables.")]
_KeyFile = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="File with the key (silt key new) for --http.")
]
_Output = Annotated[TableFormat, typer.Option("--output", "-o", help="How results are printed.")]
_Engine = Annotated[
    Engine, typer.Option(help="What computes: DuckDB, in this process, or Spark (needs Java 17 or 21).")
]
_Timeout = Annotated[float | None, typer.Option(min=0.001, metavar="SECONDS", help="Give up after this time.")]


def sql(  # noqa: PLR0913  # options, all but the first by name
    statement: _Statement = None,
    *,
    data: _Data = None,
    http: _Http = None,
    key_file: _KeyFile = None,
    file: _File = None,
    engine: _Engine = Engine.DUCKDB,
    output: _Output = TableFormat.TEXT,
    timeout: _Timeout = None,
) -> None:
    """Run SQL. Each stream is a view of its live messages, settled or not; without a statement, a shell.

    SHOW TABLES lists the views: streams, silt_streams, silt_consumers, kv_BUCKET, kv_BUCKET_history. The past:
    as_of(stream, point), multi_last(stream, filter, point), diff(stream, a, b), versions(stream); a point is a
    sequence, a time or an age. Statements only read. Exit codes: 0 done; 1 a statement failed; 4 no server answers.
    """
    try:
        status = run_sql(SqlArguments(statement, data, http, key_file, file, engine, output, timeout))
    except WrongUse as error:
        raise typer.BadParameter(str(error), param_hint=error.option) from None
    if status is not Exit.OK:
        raise typer.Exit(status)
