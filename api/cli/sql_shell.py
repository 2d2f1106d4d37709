"""The shell of ``silt sql``: statements that end with a semicolon, history, completion, views and their columns."""

import json
import re
import readline
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final, TextIO

from api.cli.sql_sources import SqlSource
from api.cli.sql_text import taken_apart
from api.formats.table_format import TableFormat

HISTORY: Final = "sql_history"
_HISTORY_LINES: Final = 2_000
_FIRST, _NEXT = "silt> ", "  ...> "
_HELP: Final = """\
  SELECT …;      a statement ends with a semicolon and may take several lines
  \\d             the views
  \\d NAME        a view's columns
  \\q             the end, as Ctrl-D; Ctrl-C takes back the line, or ends the statement that runs
A stream is a view of its live messages. The past: as_of('STREAM', point), multi_last('STREAM', 'filter', point),
diff('STREAM', a, b), versions('STREAM'); a point is a sequence (42), a time ('2026-01-31T12:00:00Z') or an age ('15m').
"""
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "QUALIFY", "JOIN", "USING", "WITH",
    "UNION ALL",
    "count(*)", "max(", "min(", "sum(", "DISTINCT", "DESCRIBE", "SUMMARIZE", "SHOW TABLES", "BETWEEN", "LIKE",
    "as_of(", "multi_last(", "diff(", "versions(",
)  # fmt: skip
_DELIMITERS: Final = " \t\n,;()=<>'\"+-*/"
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Run = Callable[[str], None]
"""Runs one statement and prints its answer or its error."""


class ShellNames:
    """The names that can be completed, asked for when they are needed."""

    def __init__(self, source: SqlSource) -> None:
        self._source = source
        self._columns: dict[str, list[str]] = {}

    @cached_property
    def views(self) -> list[str]:
        """The views."""
        return self._asked("SHOW TABLES", "name")

    def columns(self, view: str) -> list[str]:
        """Return a view's columns."""
        if view not in self._columns:
            self._columns[view] = self._asked(f"DESCRIBE {quoted(view)}", "column_name")
        return self._columns[view]

    def completions(self, word: str, line: str) -> list[str]:
        """Return what a word may become: columns of the views that the line names, views, words of SQL."""
        try:
            columns = [name for view in self.views if view in line for name in self.columns(view)]
            names = [*columns, *(quoted(view) for view in self.views)]
        except Exception:  # noqa: BLE001  # a store that can't be read now is no reason to break the line
            names = []
        start = word.lower()
        return sorted({name for name in (*names, *_WORDS) if name.lower().lstrip('"').startswith(start)})

    def _asked(self, statement: str, column: str) -> list[str]:
        answer = b"".join(self._source.chunks(statement, TableFormat.NDJSON))
        return [str(json.loads(line)[column]) for line in answer.splitlines()]


class Shell:
    """Reads statements from a terminal and has them run."""

    def __init__(self, source: SqlSource, run: Run, *, history: Path | None, to: TextIO = sys.stdout) -> None:
        self._source, self._run, self._history, self._to = source, run, history, to
        self._catalog = ShellNames(source)
        self._found: list[str] = []

    def serve(self) -> None:
        """Read and run until the end."""
        self._prepare()
        self._say("silt sql. \\? helps, \\q ends.\n")
        pending = ""
        try:
            while True:
                try:
                    line = input(_NEXT if pending else _FIRST)
                except KeyboardInterrupt:
                    self._say("\n")
                    pending = ""
                    continue
                if not pending and line.strip().startswith("\\"):
                    if self._command(line.strip()):
                        return
                    continue
                complete, pending = taken_apart(f"{pending}{line}\n")
                pending = pending if pending.strip() else ""
                for statement in complete:
                    self._run(statement)
        except EOFError:
            self._say("\n")
        finally:
            self._keep()

    def _command(self, line: str) -> bool:
        """Obey a command; return whether it is the end."""
        name, _, argument = line.partition(" ")
        if name == "\\q":
            return True
        if name in ("\\d", "\\dt", "\\dv"):
            self._catalog = ShellNames(self._source)
            view = argument.strip().rstrip(";").strip('"')
            self._run(f"DESCRIBE {quoted(view)}" if view else "SHOW TABLES")
        else:
            self._say(_HELP)
        return False

    def _prepare(self) -> None:
        readline.set_completer_delims(_DELIMITERS)
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(_HISTORY_LINES)
        if self._history is not None and self._history.is_file():
            readline.read_history_file(self._history)

    def _keep(self) -> None:
        """Write the history, which may hold what others should not read."""
        if self._history is None:
            return
        self._history.parent.mkdir(parents=True, exist_ok=True)
        self._history.touch(mode=0o600)
        self._history.chmod(0o600)
        readline.write_history_file(self._history)

    def _complete(self, word: str, state: int) -> str | None:
        if state == 0:
            self._found = self._catalog.completions(word, readline.get_line_buffer())
        return self._found[state] if state < len(self._found) else None

    def _say(self, text: str) -> None:
        self._to.write(text)
        self._to.flush()


def quoted(name: str) -> str:
    """Return a view's name as SQL takes it."""
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'
