"""A process that answers SQL for the HTTP server: ``python -m api.rest.sql_worker --data LOCATION``.

One query at a time: questions on standard input, answers on standard output (:mod:`api.rest.sql_frames`). Being a
process, it takes no turn of the event loop from readers, may be killed at any time, and dies with the HTTP server. It
is niced, so that reads come first.
"""

import argparse
import os
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from api.formats.encoding import encode
from api.process.process_arguments import add_data_argument
from api.rest.access import matches
from api.rest.sql_frames import Mark, SqlFailure, SqlFrame, SqlQuestion
from conf.error_text import error_text
from conf.limits import SQL_NICE, SQL_SPARE_BYTES
from conf.log import configure_log, log
from conf.settings import load_settings
from delta_store.sql.sql_engine import SqlEngine
from delta_store.sql.sql_errors import SqlError
from delta_store.sql.sql_limits import SqlLimits
from delta_store.values.read_errors import ReadError

if TYPE_CHECKING:
    from conf.data_location import DataLocation

Send = Callable[[SqlFrame], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer until standard input ends; return the exit status."""
    parser = argparse.ArgumentParser(prog="silt sql worker", description="Answer SQL for the HTTP server.")
    add_data_argument(parser)
    data: DataLocation = parser.parse_args(arguments).data
    configure_log("sql")
    os.nice(SQL_NICE)
    import_module("duckdb")  # before the first question, as it takes a while, and memory of its own
    base_bytes = _data_bytes()
    with os.fdopen(os.dup(1), "wb") as answers, suppress(BrokenPipeError):
        os.dup2(2, 1)  # what a library prints must not stand among the frames
        engine = SqlEngine.open(data.with_settings(load_settings().storage), lasting=True)

        def send(frame: SqlFrame) -> None:
            answers.write(frame.encoded())
            answers.flush()

        send(SqlFrame(Mark.READY))
        for line in sys.stdin.buffer:
            question = SqlQuestion.decoded(line)
            _limit_memory(base_bytes + question.memory_bytes)
            answer(engine, question, send)
    return 0


def answer(engine: SqlEngine, question: SqlQuestion, send: Send) -> None:
    """Answer a question; an error of the query's or the store's is an answer."""
    try:
        limits = SqlLimits(seconds=question.seconds, memory_bytes=question.memory_bytes, rows=question.rows)
        with engine.query(
            question.text, question.parameters, limits=limits, readable=lambda name: _is_readable(question, name)
        ) as query:
            schema = query.run()
            send(SqlFrame(Mark.START))
            for chunk in encode(question.format, schema, query.batches()):
                send(SqlFrame(Mark.DATA, chunk))
        send(SqlFrame(Mark.END))
    except (SqlError, ReadError) as error:
        send(SqlFrame(Mark.FAILED, SqlFailure(error.kind.value, str(error)).encoded()))
    except MemoryError:
        send(SqlFrame(Mark.FAILED, SqlFailure("memory", "the query needs more memory than it may have").encoded()))
    except Exception as error:  # noqa: BLE001  # the next question may fare better
        log.error("query failed", error=error_text(error))
        send(SqlFrame(Mark.FAILED, SqlFailure(type(error).__name__, str(error)).encoded()))


def _is_readable(question: SqlQuestion, stream: str) -> bool:
    return any(matches(pattern, stream) for pattern in question.readable)


def _data_bytes() -> int:
    """Return the size of the heap, what allocators have reserved included (Linux; 0 elsewhere)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _limit_memory(heap_bytes: int) -> None:
    """Bound the heap: functions on lists and strings do not obey the engine's own limit."""
    bound = heap_bytes + SQL_SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (bound, resource.getrlimit(resource.RLIMIT_DATA)[1]))


if __name__ == "__main__":
    sys.exit(main())
