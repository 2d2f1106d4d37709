"""How a verb ends that can't do its work: by a line on standard error and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from conf.error_text import error_text
from conf.exit_codes import Exit
from delta_store.values.journal_errors import JournalError
from delta_store.values.read_errors import ReadError


def ended(verb: str, reason: object, code: Exit = Exit.FAILED) -> typer.Exit:
    """Say the reason; return what is to be raised."""
    typer.echo(f"silt {verb}: {reason}", err=True)
    return typer.Exit(code)


@contextmanager
def reading(verb: str, *errors: type[Exception], advice: str = "") -> Iterator[None]:
    """End the process with status 1 where the tables can't be read, and at these ``errors``."""
    unreadable: tuple[type[Exception], ...] = (JournalError, ReadError, OSError, *errors)
    try:
        yield
    except unreadable as error:
        raise ended(verb, error_text(error) + advice) from None
