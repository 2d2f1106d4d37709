"""One DuckDB of its own for a statement: opened, given relations, fenced, asked; then for another like it.

What keeps a statement inside: only a tree that :mod:`delta_store.sql.statement` let pass is run; when it is, external
access is off but for the files of the relations (which no table function that is let pass can name), nothing can be
attached, installed or loaded, no Python variable is looked up, and no setting can be changed any more.
"""

import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import pyarrow as pa

from delta_store.sql.fence import Fence
from delta_store.sql.sql_errors import SqlError, SqlErrorKind, invalid, refused
from delta_store.sql.sql_limits import SqlLimits
from delta_store.values.lru import Lru
from delta_store.values.read_errors import DamagedData, FileGone

Parameters = Sequence[Any] | Mapping[str, Any]
_BATCH_ROWS: Final = 65_536
_TABLE: Final = "silt.table."
_SAID_CHARACTERS: Final = 256 * 1024
"""Statements, as texts and as trees, that a session remembers."""
_FIXED: Final[Mapping[str, Any]] = {
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
_STARTED: Final = (
    "TimeZone = 'UTC'",
    "enable_progress_bar = true",
    "enable_progress_bar_print = false",
    "parquet_metadata_cache = true",
    "streaming_buffer_size = '16MB'",
)
"""Footers are kept, as settled files never change; who reads an answer does not hold up threads that make it."""
_INTERRUPTED: Final = "INTERRUPT"
_TOO_LONG: Final = "maximum execution time"
_NO_MEMORY: Final = ("Out of Memory", "bad_alloc", "failed to allocate", "temp_directory_size", "exceeds the limit")


class DuckSession:
    """A DuckDB in memory. Used by one thread, but for :meth:`interrupt` and :meth:`progress`.

    What it has found out about files and texts holds for its next statement, too: they never change.
    """

    def __init__(self, limits: SqlLimits) -> None:
        """Open it, which takes 25 ms."""
        self.limits = limits
        self._folder = Path(gettempdir(), f"silt-sql-{secrets.token_hex(8)}")
        """Where it spills to; it is there while a statement runs."""
        self._database = _opened(limits)
        self._database.execute("SET temp_directory = ?", [str(self._folder / "spilled")])
        for setting in _STARTED:
            self._database.execute(f"SET {setting}")
        self._fence = Fence()
        self._tables = 0
        self._views: dict[str, tuple[str, str]] = {}
        """Names as written and queries of the views that there are, by names without case."""
        self._held: dict[str, bool] = {}
        self._said: Lru[tuple[str, str], tuple[str, str]] = Lru(_SAID_CHARACTERS, lambda both: sum(map(len, both)))

    def parsed(self, text: str) -> str:
        """Return the tree of some statements as JSON, with an error in it where they are no SELECT."""
        return self._one("SELECT json_serialize_sql(?)", text)

    def written(self, tree: str) -> str:
        """Return the text of a tree."""
        return self._one("SELECT json_deserialize_sql(?::JSON)", tree)

    def value(self, query: str) -> Any:
        """Return the only value of a query, as Python has it. Raises :class:`SqlError`."""
        with self.telling():
            [column] = self._database.sql(query).to_arrow_table().columns
            return column.to_pylist()[0]

    def table(self, rows: Any) -> str:
        """Register an Arrow table or dataset; return its name, which no stream can have."""
        self._tables += 1
        name = f"{_TABLE}{self._tables}"
        self._database.register(name, rows)
        return name

    def view(self, name: str, query: str) -> None:
        """Create a view; ``name`` is quoted already."""
        if self._views.get(name.lower()) == (name, query):
            return
        with self.telling():
            self._database.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
        self._views[name.lower()] = (name, query)

    def holds(self, query: str) -> bool:
        """Whether a query has a row."""
        if query not in self._held:
            with self.telling():
                found = self._database.sql(f"SELECT 1 FROM ({query}) LIMIT 1").to_arrow_table()
            self._held[query] = bool(found.num_rows)
        return self._held[query]

    def allow(self, stream: str, paths: Sequence[str]) -> None:
        """Let relations read these local files of a stream, also behind the fence. Raises :class:`BeyondFence`."""
        self._fence.let(stream, paths)

    def fence(self) -> None:
        """Shut everything but the relations; nothing opens it again. Raises :class:`BeyondFence`."""
        if self._fence.shut():
            self._database.execute("SET allowed_paths = ?", [sorted(self._fence.files)])
            self._database.execute("SET enable_external_access = false")
            self._database.execute("SET lock_configuration = true")

    def answer(self, text: str, parameters: Parameters) -> Any:
        """Run a statement that passed the checks until its first rows are there; return an Arrow reader of the rest."""
        with self.telling():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
            return self._database.sql(text, params=given or None).to_arrow_reader(_BATCH_ROWS)

    def interrupt(self) -> None:
        """End what runs."""
        self._database.interrupt()

    def progress(self) -> float | None:
        """Return the part that is done, 0 to 1; None where it is not known."""
        percent: float = self._database.query_progress()
        return percent / 100 if percent >= 0 else None

    def clear(self) -> None:
        """Forget the tables of a statement that is over, and all that was made of them.

        Raises where it spilled: DuckDB takes its folder to be there for good.
        """
        self._folder.rmdir()
        if self._tables:
            for name, _ in self._views.values():
                self._database.execute(f"DROP VIEW IF EXISTS {name}")
            for number in range(1, self._tables + 1):
                self._database.unregister(f"{_TABLE}{number}")
            self._tables, self._views, self._held = 0, {}, {}

    def close(self) -> None:
        """Free memory and disk."""
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Turn DuckDB's errors into :class:`SqlError` and the read errors."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as error:
            raise _told(error, self.limits, self._fence.files) from error

    def _one(self, query: str, argument: str) -> str:
        said = self._said.get((query, argument))
        if said is None:
            with self.telling():
                [[found]] = self._database.execute(query, [argument]).fetchall()
            said = argument, str(found)
            self._said.put((query, argument), said)
        return said[1]


def _opened(limits: SqlLimits) -> Any:
    import duckdb

    bounds = {
        "threads": limits.threads,
        "memory_limit": None if limits.memory_bytes is None else f"{limits.memory_bytes}B",
        "max_temp_directory_size": None if limits.temp_bytes is None else f"{limits.temp_bytes}B",
        "max_execution_time": None if limits.seconds is None else max(1, round(limits.seconds * 1000)),
    }
    settings = {name: value for name, value in bounds.items() if value is not None}
    return duckdb.connect(":memory:", config={**_FIXED, **settings})


def _told(error: Exception, limits: SqlLimits, files: Iterable[str]) -> Exception:
    """Return what an error of DuckDB's means to who asked."""
    import duckdb

    text = str(error)
    gone = next((path for path in files if path in text), None)
    if gone is not None:
        return DamagedData(gone, text) if Path(gone).exists() else FileGone(gone)
    if _INTERRUPTED in text:
        if _TOO_LONG in text:
            return SqlError(SqlErrorKind.TIMEOUT, f"the statement took longer than {limits.seconds:g} s")
        return SqlError(SqlErrorKind.CANCELLED, "the statement was cancelled")
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException) or any(one in text for one in _NO_MEMORY):
        return SqlError(SqlErrorKind.MEMORY, f"the statement needs more memory than it may take: {first_line(text)}")
    if isinstance(error, duckdb.PermissionException):
        return refused(first_line(text))
    return invalid(text)


def first_line(text: str) -> str:
    """Return the first line of an error's text."""
    return text.partition("\n")[0]
