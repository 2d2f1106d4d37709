"""SQL from the shell, cold, and in a process that has answered before: beside plain DuckDB, Polars and Spark.

Cold is a process of its own from its start to its end, its answer written as CSV; Python finds the bytecode that an
installed package has. Warm is the best of a few runs in one process, a pause between them, up to the last row in Arrow.
The plain engines get the list of files and no rule of what is live, which this store does not need: nothing was removed
from it. Spark is asked on request, as it takes half a minute a question. Back of an envelope, cold: 0.3 s to import
Arrow, DuckDB and NumPy, 0.1 s for the rest of the start; warm: 10 ms to pin both tables, check and bind the statement;
the rest is DuckDB's, and it must stay within 1.25 times the plain.
"""

import json
import os
import resource
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from conf.clock import SystemClock
from conf.limits import SUBJECT_BUCKETS
from delta_store.entries.staged_file import StagedFile, Writing, staged_path
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.schemas import MESSAGES_PARTITION_COLUMNS, MESSAGES_SCHEMA, RECENT_PARTITION
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark
from tests.benchmarks.report import Runs
from tests.groups import columns, open_journal
from tests.servers import ROOT
from tests.staged import open_owner, settle
from tests.tables import START_NS, History

SUBJECTS: Final = (1, 100_000)
_PROCESS_SECONDS_MAX: Final = 600
_FILE_ROWS: Final = 250_000
_GROUP_ROWS: Final = 65_536
_FILES: Final = "read_parquet({files}, hive_partitioning = false)"


_WARM: Final = """
import json, time
{start}
def ask():
    {ask}
ask()
times = []
for _ in range({times}):
    time.sleep(0.1)
    began = time.perf_counter()
    ask()
    times.append(time.perf_counter() - began)
print(json.dumps(min(times)))
"""
_WARM_TIMES: Final = 5
_ENGINE: Final = """
from conf.data_location import DataLocation
from delta_store.reading.arrow_start import without_pandas
from delta_store.sql.sql_engine import SqlEngine
from delta_store.sql.sql_limits import BY_HAND
without_pandas()
engine = SqlEngine.open(DataLocation({data!r}), limits=BY_HAND, lasting=True)
"""
_ASK: Final = """with engine.query({text!r}) as query:
        query.run()
        list(query.batches())"""


class Question(NamedTuple):
    """A question in the words of each engine; ``{half}`` and ``{all}`` are sequences."""

    name: str
    silt: str
    duckdb: str
    """``{files}`` is the relation of the files."""
    polars: str
    """An expression on ``rows``, a LazyFrame, that gives a DataFrame."""


QUESTIONS: Final = (
    Question("count", "SELECT count(*) FROM S", "SELECT count(*) FROM {files}", "rows.select(pl.len()).collect()"),
    Question(
        "group",
        "SELECT subject, count(*) AS n FROM S GROUP BY subject",
        "SELECT subject, count(*) AS n FROM {files} GROUP BY subject",
        "rows.group_by('subject').agg(pl.len()).collect()",
    ),
    Question(
        "last",
        "SELECT subject, seq, data FROM multi_last('S', 's.>')",
        "SELECT subject, seq, data FROM {files} WHERE seq IN (SELECT max(seq) FROM {files} GROUP BY subject)",
        "rows.sort('seq').group_by('subject').agg(pl.last('seq'), pl.last('data').cast(pl.String)).collect()",
    ),
    Question(
        "as of",
        "SELECT count(*), sum(length(text)) FROM as_of('S', {half})",
        "SELECT count(*), sum(length(decode(data))) FROM {files} WHERE seq <= {half}",
        "rows.filter(pl.col('seq') <= {half}).select(pl.len(), pl.col('data').bin.size().sum()).collect()",
    ),
    Question(
        "diff",
        "SELECT change, count(*) FROM diff('S', {half}, {all}) GROUP BY change",
        "SELECT a.seq IS NULL AS added, count(*) FROM (SELECT subject, max(seq) AS seq FROM {files} WHERE seq <= {half}"
        " GROUP BY subject) a FULL JOIN (SELECT subject, max(seq) AS seq FROM {files} GROUP BY subject) b"
        " USING (subject) WHERE a.seq IS DISTINCT FROM b.seq GROUP BY 1",
        "rows.filter(pl.col('seq') <= {half}).group_by('subject').agg(pl.max('seq')).join(rows.group_by('subject')"
        ".agg(pl.max('seq')), on='subject', how='full').collect()",
    ),
)


def sql_times(folder: Path, *, messages: int, repetitions: int, spark: bool) -> Runs:
    """Messages a second, in the shape of ``report.Runs``: by engine and question."""
    runs: Runs = {}
    for subjects in SUBJECTS:
        data = folder / f"sql-{subjects}"
        shutil.rmtree(data, ignore_errors=True)
        write_store(data, messages=messages, subjects=subjects)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        for question in QUESTIONS:
            shape = f"{question.name}, {messages / 1e6:g}M/{subjects}"
            for engine, command in _commands(data, question, messages, spark=spark):
                _cold(command, environment)
                for _ in range(1 if "spark" in engine else repetitions):
                    entry = _cold(command, environment)
                    entry["rate"] = messages / entry["seconds"]
                    runs.setdefault(engine, {}).setdefault(f"sql cold {shape}", []).append(entry)
            for engine, program in _programs(data, question, messages):
                for _ in range(repetitions):
                    seconds = float(_output([sys.executable, "-c", program], environment))
                    entry = {"rate": messages / seconds, "seconds": seconds}
                    runs.setdefault(engine, {}).setdefault(f"sql warm {shape}", []).append(entry)
        shutil.rmtree(data)
    return runs


def write_store(data: Path, *, messages: int, subjects: int) -> None:
    """Write a settled stream ``S`` in the layout that the settle job's compaction leaves."""
    history = History()
    created = history.create()
    open_journal(data / "journal").commit(columns([created]))
    owner = open_owner(LocalStorage(data / "messages"), SystemClock())
    settle(owner, [created])
    writing, files = Writing(owner.epoch, owner.note.batch + 1), []
    for number, rows in enumerate(settled_tables(history.stream_id, range(1, messages + 1), subjects)):
        sink = pa.BufferOutputStream()
        bare = rows.drop_columns(list(MESSAGES_PARTITION_COLUMNS))
        pq.write_table(bare, sink, row_group_size=_GROUP_ROWS, write_page_checksum=True)
        body = bytes(sink.getvalue())
        place = ("S", rows["subject_partition"][0].as_py())
        path = staged_path(writing, *place, number=number, unique=secrets.token_hex(8))
        owner.storage.write(Blob(path, body))
        files.append(StagedFile(path, *place, len(body), len(rows), crc32(body), _statistics(rows)))
    marks = {"S": Watermark(history.stream_id, messages, created.event_no, 1)}
    claim = Claim(owner.snapshot.rows + messages, {"S": messages})
    owner.append(files, CommitNote(Op.APPEND, marks, writing.batch, claim))


def settled_tables(stream_id: int, of: range, subjects: int, *, recent: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of each file: ``recent`` ones together, others by bucket where there are many subjects."""
    seqs = np.arange(of.start, of.stop)
    numbers = (seqs * 7919) % subjects
    names = np.array([f"s.{number}" for number in range(subjects)])
    if recent:
        yield _rows(stream_id, seqs, names[numbers], RECENT_PARTITION)
        return
    buckets = np.array([crc32(name.encode()) % SUBJECT_BUCKETS for name in names]) if subjects > 1 else np.zeros(1, int)
    for bucket in np.unique(buckets):
        chosen = buckets[numbers] == bucket
        mine, theirs = seqs[chosen], names[numbers[chosen]]
        for start in range(0, len(mine), _FILE_ROWS):
            part = slice(start, start + _FILE_ROWS)
            yield _rows(stream_id, mine[part], theirs[part], f"b{bucket:02d}" if subjects > 1 else "s.0")


def _rows(stream_id: int, seqs: np.ndarray, subjects: np.ndarray, partition: str) -> pa.Table:
    count = len(seqs)
    data = [b'{"id": %d, "note": "%s"}' % (seq, b"x" * (60 + seq % 20)) for seq in seqs.tolist()]
    names = subjects.tolist()
    size = [30 + len(name) + len(body) for name, body in zip(names, data, strict=True)]
    values = {
        "stream": ["S"] * count, "stream_id": [stream_id] * count, "seq": seqs, "event_no": [1] * count,
        "kind": ["message"] * count, "subject": names, "ts_ns": START_NS + seqs * 1_000_000, "msg_id": [None] * count,
        "first_seq": [1] * count, "evicts": [0] * count, "headers": [None] * count, "data": data,
        "crc": [crc32(body, crc32(name.encode())) for name, body in zip(names, data, strict=True)], "size": size,
        "subject_partition": [partition] * count,
    }  # fmt: skip
    return pa.table([pa.array(values[field.name], field.type) for field in MESSAGES_SCHEMA], schema=MESSAGES_SCHEMA)


def _statistics(rows: pa.Table) -> str:
    bounds = {
        name: pa.compute.min_max(rows[name]).as_py() for name in ("stream_id", "seq", "subject", "ts_ns", "evicts")
    }
    low, high = ({name: bound[end] for name, bound in bounds.items()} for end in ("min", "max"))
    return json.dumps(
        {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
    )


def _commands(data: Path, question: Question, messages: int, *, spark: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each engine with the command that answers the question."""
    files, places = _files(data), _places(messages)
    asked = ["sql", question.silt.format(**places), "--data", str(data), "-o", "csv"]
    silt = [sys.executable, "-m", "api.cli.main", *asked]
    yield "silt", silt
    text = question.duckdb.format(files=_FILES.format(files=files), **places)
    yield "DuckDB", [sys.executable, "-c", f"import duckdb, sys; duckdb.sql({text!r}).write_csv('/dev/null')"]
    polars = question.polars.format(**places)
    yield "Polars", [sys.executable, "-c", f"{_scan(files)}; ({polars}).write_csv('/dev/null')"]
    if spark:
        yield "silt --engine spark", [*silt, "--engine", "spark"]


def _programs(data: Path, question: Question, messages: int) -> Iterator[tuple[str, str]]:
    """Yield each engine with the program that prints how long an answer takes it."""
    files, places = _files(data), _places(messages)
    asked = _ASK.format(text=question.silt.format(**places))
    yield "silt", _WARM.format(start=_ENGINE.format(data=str(data)), ask=asked, times=_WARM_TIMES)
    text = question.duckdb.format(files=_FILES.format(files=files), **places)
    yield "DuckDB", _WARM.format(start="import duckdb", ask=f"duckdb.sql({text!r}).to_arrow_table()", times=_WARM_TIMES)
    yield "Polars", _WARM.format(start=_scan(files), ask=question.polars.format(**places), times=_WARM_TIMES)


def _files(data: Path) -> list[str]:
    found = sorted(map(str, (data / "messages" / "stream=S").rglob("*.parquet")))
    return [path for path in found if "events" not in path]


def _places(messages: int) -> dict[str, int]:
    return {"half": messages // 2, "all": messages}


def _scan(files: list[str]) -> str:
    return f"import polars as pl; rows = pl.scan_parquet({files!r}, hive_partitioning=False)"


def _cold(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Return how long a command takes, and its processor time."""
    used, began = _used(), time.perf_counter()
    _output(command, environment)
    return {"seconds": time.perf_counter() - began, "cpu_seconds": _used() - used}


def _output(command: list[str], environment: dict[str, str]) -> bytes:
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, timeout=_PROCESS_SECONDS_MAX
    )
    return ran.stdout


def _used() -> float:
    """Return the processor time of all children that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
