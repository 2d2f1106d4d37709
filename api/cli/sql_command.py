"""What ``silt sql`` does with its arguments. Imports no typer, which with pydantic takes a fifth of a second."""

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from api.formats.table_format import TableFormat
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.exit_codes import Exit

if TYPE_CHECKING:
    from api.cli.sql_sources import SqlSource


class Engine(StrEnum):
    """The values of ``--engine``."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class SqlArguments(NamedTuple):
    """The arguments, each valid by itself."""

    statement: str | None = None
    data: DataLocation | None = None
    http: str | None = None
    key_file: Path | None = None
    file: str | None = None
    engine: Engine = Engine.DUCKDB
    output: TableFormat = TableFormat.TEXT
    timeout: float | None = None


class WrongUse(Exception):  # it is no error of a program
    """The arguments don't go together; nothing was run yet."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


def run_sql(given: SqlArguments) -> Exit:
    """Run the statements, or a shell; return how the process ends. Raises :class:`WrongUse`."""
    if given.statement is not None and given.file is not None:
        raise WrongUse("give a statement or --file, not both")
    statements = _statements(given.statement, given.file)
    source = _source(given, lasting=statements is None or len(statements) > 1)
    output = given.output
    if output.is_binary and (sys.stdout.isatty() or (statements is not None and len(statements) > 1)):
        raise WrongUse(f"{output.value} is one answer's bytes for a file, not for a terminal")
    if statements is None:
        _shell(source, output)
        return Exit.OK
    for one in statements:
        ended = _run(source, one, output)
        if ended is not None:
            return ended
    return Exit.OK


def _source(given: SqlArguments, *, lasting: bool) -> "SqlSource":
    """Return what answers; ``lasting`` where it will be asked more than once."""
    if given.http is not None:
        return _server(given.http, given)
    if given.data is None:
        raise WrongUse("say where the tables are: --data, or --http for a running server")
    from api.cli import sql_sources

    location = given.data if given.data.is_local else _with_settings(given.data)
    if given.engine is Engine.SPARK:
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # Spark logs each error that it raises
        return sql_sources.SparkSql(location)
    return sql_sources.EmbeddedSql(location, seconds=given.timeout, lasting=lasting)


def _server(url: str, given: SqlArguments) -> "SqlSource":
    from api.cli.sql_server import ServerSql

    if given.engine is Engine.SPARK:
        raise WrongUse("a server answers by DuckDB: leave out --engine")
    key = None if given.key_file is None else given.key_file.read_text().strip()
    try:
        return ServerSql(url, key=key)
    except ValueError as error:
        raise WrongUse(str(error), "--http") from None


def _with_settings(data: DataLocation) -> DataLocation:
    from conf.settings import load_settings

    return data.with_settings(load_settings().storage)


def _statements(statement: str | None, file: str | None) -> list[str] | None:
    """Return the statements to run; None for a shell."""
    if statement is not None:
        return [statement]
    if file is None and sys.stdin.isatty():
        return None
    if file is None:
        raise WrongUse("give a statement, or --file; a shell needs a terminal")
    from api.cli.sql_text import all_of

    try:
        return all_of(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file} can't be read: {error_text(error)}", "--file") from None


def _run(source: "SqlSource", statement: str, output: TableFormat) -> Exit | None:
    """Run one statement; return how the process ends if it does."""
    from api.cli.sql_running import run
    from delta_store.sql.sql_errors import SqlError
    from delta_store.values.read_errors import ReadError

    try:
        run(source, statement, output, sys.stdout.buffer, progress=sys.stderr)
    except BrokenPipeError:  # whoever reads has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # for Python's own last flush
        return Exit.OK
    except (SqlError, ReadError, OSError) as error:
        sys.stderr.write(f"silt sql: {error_text(error)}\n")
        return Exit.UNREACHABLE if isinstance(error, ConnectionError) else Exit.FAILED
    return None


def _shell(source: "SqlSource", output: TableFormat) -> None:
    from api.cli.sql_shell import HISTORY, Shell

    def run(statement: str) -> None:
        _run(source, statement, output)

    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "silt")
    Shell(source, run, history=state / HISTORY).serve()
