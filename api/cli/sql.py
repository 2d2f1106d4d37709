"""``silt sql``: queries of the streams, now and at any point of their past."""

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.cli.options import location_option
from api.formats.table_format import TableFormat
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.exit_codes import Exit
from conf.settings import load_settings

if TYPE_CHECKING:
    from api.cli.sql_sources import SqlSource


class Engine(StrEnum):
    """The values of ``--engine``."""

    DUCKDB = "duckdb"
    SPARK = "spark"


_Statement = Annotated[
    str | None, typer.Argument(metavar="[STATEMENT]", help='For example: SELECT count(*) FROM "ORDERS"')
]
_Data = Annotated[
    DataLocation | None,
    typer.Option(
        "--data",
        envvar="SILT_DATA",
        parser=location_option,
        metavar="LOCATION",
        help="Folder, or URL of an object store (s3://, gs://, az://), that holds the tables.",
    ),
]
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
    if statement is not None and file is not None:
        raise typer.BadParameter("give a statement or --file, not both")
    source = _source(data, http, key_file, engine, timeout)
    statements = _statements(statement, file)
    if output.is_binary and (sys.stdout.isatty() or (statements is not None and len(statements) > 1)):
        raise typer.BadParameter(f"{output.value} is one answer's bytes for a file, not for a terminal")
    if statements is None:
        _shell(source, output)
        return
    for one in statements:
        _run(source, one, output)


def _source(
    data: DataLocation | None, http: str | None, key_file: Path | None, engine: Engine, timeout: float | None
) -> "SqlSource":
    from api.cli import sql_sources

    if http is not None:
        if engine is Engine.SPARK:
            raise typer.BadParameter("a server answers by DuckDB: leave out --engine")
        key = None if key_file is None else key_file.read_text().strip()
        try:
            return sql_sources.ServerSql(http, key=key)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--http") from None
    if data is None:
        raise typer.BadParameter("say where the tables are: --data, or --http for a running server")
    location = data.with_settings(load_settings().storage)
    if engine is Engine.SPARK:
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # Spark logs each error that it raises
        return sql_sources.SparkSql(location)
    return sql_sources.EmbeddedSql(location, seconds=timeout)


def _statements(statement: str | None, file: str | None) -> list[str] | None:
    """Return the statements to run; None for a shell."""
    from api.cli.sql_text import all_of

    if statement is not None:
        return [statement]
    if file is None and sys.stdin.isatty():
        return None
    if file is None:
        raise typer.BadParameter("give a statement, or --file; a shell needs a terminal")
    try:
        return all_of(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} can't be read: {error_text(error)}", param_hint="--file") from None


def _run(source: "SqlSource", statement: str, output: TableFormat) -> None:
    """Run one statement; a failure ends the process with its exit code."""
    from api.cli.sql_running import run
    from delta_store.sql.sql_errors import SqlError
    from delta_store.values.read_errors import ReadError

    try:
        run(source, statement, output, sys.stdout.buffer, progress=sys.stderr)
    except BrokenPipeError:  # whoever reads has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # for Python's own last flush
        raise typer.Exit(Exit.OK) from None
    except ConnectionError as error:
        typer.echo(f"silt sql: {error_text(error)}", err=True)
        raise typer.Exit(Exit.UNREACHABLE) from None
    except (SqlError, ReadError, OSError) as error:
        typer.echo(f"silt sql: {error_text(error)}", err=True)
        raise typer.Exit(Exit.FAILED) from None


def _shell(source: "SqlSource", output: TableFormat) -> None:
    from contextlib import suppress

    from api.cli.sql_shell import HISTORY, Shell

    def run(statement: str) -> None:
        with suppress(typer.Exit):
            _run(source, statement, output)

    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "silt")
    Shell(source, run, history=state / HISTORY).serve()
