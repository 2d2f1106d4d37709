"""One DuckDB of its own for one statement: opened, given relations, fenced, asked.

What keeps a statement inside: only a tree that :mod:`delta_store.sql.statement` let pass is run; when it is, external
access is off but for the files of the relations (which no table function that is let pass can name), nothing can be
attached, installed or loaded, no Python variable is looked up, and no setting can be changed any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_store.sql.sql_errors import SqlError, SqlErrorKind, invalid, refused
from delta_store.sql.sql_limits import SqlLimits
from delta_store.values.read_errors import DamagedData, FileGone

if TYPE_CHECKING:
    pass

Parameters = Sequence[Any] | Mapping[str, Any]
_BATCH_ROWS: Final = 65_536
_FIXED: Final[Mapping[str, Any]] = {
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
_STARTED: Final = ("TimeZone = 'UTC'", "enable_progress_bar = true", "enable_progress_bar_print = false")
_INTERRUPTED: Final = "INTERRUPT"
_TOO_LONG: Final = "maximum execution time"
_NO_MEMORY: Final = ("Out of Memory", "bad_alloc", "failed to allocate", "temp_directory_size", "exceeds the limit")


class DuckSession:
    """A DuckDB in memory. Used by one thread, but for :meth:`interrupt` and :meth:`progress`."""

    def __init__(self, limits: SqlLimits, database: Any = None) -> None:
        """Take a ``database`` that :func:`opened` has for these limits, or open one."""
        self._limits = limits
        self._folder = TemporaryDirectory(prefix="silt-sql-")
        self._database = opened(limits) if database is None else database
        self._database.execute("SET temp_directory = ?", [str(Path(self._folder.name, "spilled"))])
        for setting in _STARTED:
            self._database.execute(f"SET {setting}")
        self._files: set[str] = set()
        self._tables = 0

    def parsed(self, text: str) -> str:
        """Return the tree of some statements as JSON, with an error in it where they are no SELECT."""
        return str(self._one("SELECT json_serialize_sql(?)", text))

    def written(self, tree: str) -> str:
        """Return the text of a tree."""
        return str(self._one("SELECT json_deserialize_sql(?::JSON)", tree))

    def value(self, query: str) -> Any:
        """Return the only value of a query, as Python has it. Raises :class:`SqlError`."""
        with self.telling():
            [column] = self._database.sql(query).to_arrow_table().columns
            return column.to_pylist()[0]

    def table(self, rows: Any) -> str:
        """Register an Arrow table or dataset; return its name, which no stream can have."""
        self._tables += 1
        name = f"silt.table.{self._tables}"
        self._database.register(name, rows)
        return name

    def view(self, name: str, query: str) -> None:
        """Create a view; ``name`` is quoted already."""
        with self.telling():
            self._database.execute(f"CREATE VIEW {name} AS {query}")

    def holds(self, query: str) -> bool:
        """Whether a query has a row."""
        with self.telling():
            return bool(self._database.sql(f"SELECT 1 FROM ({query}) LIMIT 1").to_arrow_table().num_rows)

    def allow(self, paths: Sequence[str]) -> None:
        """Let relations read these local files, also behind the fence."""
        self._files.update(paths)

    def fence(self) -> None:
        """Shut everything but the relations; nothing opens it again."""
        self._database.execute("SET allowed_paths = ?", [sorted(self._files)])
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def answer(self, text: str, parameters: Parameters) -> Any:
        """Run a statement that passed the checks until its first rows are there; return an Arrow reader of the rest."""
        with self.telling():
            given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
            return self._database.sql(text, params=given or None).to_arrow_reader(_BATCH_ROWS)

    def interrupt(self) -> None:
        """End what runs."""
        self._database.interrupt()

    def progress(self) -> float | None:
        """Return the part that is done, 0 to 1; None where it is not known."""
        percent: float = self._database.query_progress()
        return percent / 100 if percent >= 0 else None

    def close(self) -> None:
        """Free memory and disk."""
        self._database.close()
        self._folder.cleanup()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Turn DuckDB's errors into :class:`SqlError` and the read errors."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as error:
            raise self._told(error, str(error)) from error

    def _told(self, error: Exception, text: str) -> Exception:
        import duckdb

        gone = next((path for path in self._files if path in text), None)
        if gone is not None:
            return DamagedData(gone, text) if Path(gone).exists() else FileGone(gone)
        if _INTERRUPTED in text:
            if _TOO_LONG in text:
                return SqlError(SqlErrorKind.TIMEOUT, f"the statement took longer than {self._limits.seconds:g} s")
            return SqlError(SqlErrorKind.CANCELLED, "the statement was cancelled")
        if isinstance(error, MemoryError | duckdb.OutOfMemoryException) or any(one in text for one in _NO_MEMORY):
            return SqlError(
                SqlErrorKind.MEMORY, f"the statement needs more memory than it may take: {first_line(text)}"
            )
        if isinstance(error, duckdb.PermissionException):
            return refused(first_line(text))
        return invalid(text)

    def _one(self, query: str, argument: str) -> Any:
        with self.telling():
            return self._database.sql(query, params=[argument]).to_arrow_table().column(0).to_pylist()[0]


def opened(limits: SqlLimits) -> Any:
    """Open a DuckDB that nothing has been asked yet; takes 20 ms."""
    import duckdb

    bounds = {
        "threads": limits.threads,
        "memory_limit": None if limits.memory_bytes is None else f"{limits.memory_bytes}B",
        "max_temp_directory_size": None if limits.temp_bytes is None else f"{limits.temp_bytes}B",
        "max_execution_time": None if limits.seconds is None else max(1, round(limits.seconds * 1000)),
    }
    settings = {name: value for name, value in bounds.items() if value is not None}
    return duckdb.connect(":memory:", config={**_FIXED, **settings})


def first_line(text: str) -> str:
    """Return the first line of an error's text."""
    return text.partition("\n")[0]
