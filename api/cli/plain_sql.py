"""The plain uses of ``silt sql``, read without typer: a statement with ``--data`` and ``--output``.

Whatever else is written, right or wrong, is left to typer, which knows all options and explains what is wrong.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from api.cli.sql_command import SqlArguments, WrongUse, run_sql
from api.formats.table_format import TableFormat
from conf.data_location import data_location
from conf.setting_sources import DATA_VARIABLE

_OPTIONS: Final = {"--data": "data", "--output": "output", "-o": "output"}
_STATEMENT: Final = "statement"
_INTERRUPTED: Final = 130


def run_plain(words: Sequence[str]) -> int | None:
    """Run what follows ``silt sql``; return the process's exit code, or None, with nothing run, if it is for typer."""
    given = plain_use(words, os.environ)
    if given is None:
        return None
    try:
        return run_sql(given)
    except WrongUse:
        return None
    except KeyboardInterrupt:
        return _INTERRUPTED


def plain_use(words: Sequence[str], environment: Mapping[str, str]) -> SqlArguments | None:
    """Return the arguments, if this is a plain use with nothing wrong about it."""
    texts = {"data": environment.get(DATA_VARIABLE, ""), "output": TableFormat.TEXT.value} | (_texts(words) or {})
    if not texts["data"] or _STATEMENT not in texts:
        return None
    try:
        data, output = data_location(texts["data"]), TableFormat(texts["output"])
    except ValueError:
        return None
    if data.is_local and data.folder.is_file():
        return None
    return SqlArguments(texts[_STATEMENT], data, output=output)


def _texts(words: Sequence[str]) -> dict[str, str] | None:
    """Return statement and options by name; None where there is another, one twice, or an empty one."""
    found: dict[str, str] = {}
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _OPTIONS:
            name, value = _OPTIONS[name], value if equals else next(left, "")
        else:
            name, value = _STATEMENT, word
        if name in found or value[:1] in ("", "-"):
            return None
        found[name] = value
    return found
