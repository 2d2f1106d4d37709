"""``silt sql``: queries of the tables."""

import logging
from contextlib import chdir
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from api.cli.options import DataOption
from api.cli.output import Format, Output, OutputOption
from conf.error_text import error_text
from conf.exit_codes import Exit
from conf.settings import load_settings


def sql(
    query: Annotated[str, typer.Argument(help='The statement, for example: SELECT count(*) FROM "ORDERS"')],
    data: DataOption,
    *,
    output: OutputOption = Format.TEXT,
) -> None:
    """Run one SQL statement. Each stream is a view of its live messages, settled or not. Needs Java 17 or 21.

    silt_streams lists the streams. multi_last(stream, filter, up_to_seq) is a table function: the last message of
    each subject at that point. Exit codes: 0 done; 1 the statement failed.
    """
    from delta_store.settling.sql_views import run_sql

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # Spark logs each error that it raises
    try:
        with TemporaryDirectory(prefix="silt-sql-") as folder, chdir(folder):  # Spark leaves files in its folder
            answer = run_sql(data.with_settings(load_settings().storage), query)
    except Exception as error:  # noqa: BLE001  # any error of Spark's is shown to the user
        typer.echo(f"silt sql: {_without_plan(error_text(error))}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    Output(output).table(answer.columns, answer.rows)


def _without_plan(text: str) -> str:
    """Return Spark's message without the query plan behind it."""
    return text.strip().partition(";\n")[0].partition("\n\tat ")[0]
