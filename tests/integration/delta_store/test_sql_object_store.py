"""SQL over tables in an object store: DuckDB reads them through Arrow, as its own readers are extensions."""

from pathlib import Path

import obstore

from conf.data_location import DataLocation
from delta_store.sql.sql_engine import SqlEngine
from delta_store.storage.object_store import open_object_store
from tests.s3 import BUCKET, s3_server, storage_options
from tests.sql_answers import engine_on, rows_of
from tests.tables import History, Tables

STATEMENTS = (
    "SELECT * EXCLUDE (headers) FROM S ORDER BY seq",
    "SELECT subject, count(*) FROM S GROUP BY ALL ORDER BY 1",
    "SELECT seq FROM S WHERE subject = 's.1' AND seq > 3 ORDER BY seq",
    "SELECT seq, text FROM as_of('S', 7) ORDER BY seq",
    "SELECT subject, change FROM diff('S', 3, 9) ORDER BY subject",
    "SELECT messages, bytes, settled_seq FROM silt_streams",
)


def test_the_answers_are_those_of_a_folder(tmp_path: Path) -> None:
    """Files of a version that is settled, and the journal above it, at a URL."""
    history, tables = History(per_subject=2), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{number % 3}") for number in range(9))])
    tables.settle(tables.rows[:5])
    tables.settle(tables.rows[:8])
    url = f"s3://{BUCKET}/sql"
    with s3_server() as server:
        options = storage_options(server.url)
        store = open_object_store(url, options)
        for path in tmp_path.rglob("*"):
            if path.is_file():
                obstore.put(store, path.relative_to(tmp_path).as_posix(), path.read_bytes())
        engine = SqlEngine.open(DataLocation(url, options))
        for statement in STATEMENTS:
            assert rows_of(engine, statement) == rows_of(engine_on(tmp_path), statement), statement
