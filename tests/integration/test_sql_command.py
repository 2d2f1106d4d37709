"""``silt sql`` as a user runs it: statements, files, formats, the shell, a server, Ctrl-C."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from api.cli.app import app
from conf.exit_codes import Exit
from delta_store.sql import duck_session
from tests.sql_terminal import WAIT_SECONDS, Terminal
from tests.tables import History, Tables

LONG = "SELECT count(*) FROM range(10000000) a, range(1000000) b"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a few messages, settled and not."""
    folder, history = tmp_path_factory.mktemp("store"), History()
    tables = Tables(folder)
    tables.commit(
        [history.create(), *(history.publish(f"s.{number % 3}", b'{"n": %d}' % number) for number in range(6))]
    )
    tables.settle(tables.rows[:4])
    return folder


def ran(*arguments: str, given: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["sql", *arguments], input=given, env={"COLUMNS": "200"})


def test_formats(data: Path) -> None:
    """Each format has the same rows."""
    statement = "SELECT seq, subject FROM S WHERE seq > 4 ORDER BY seq"
    rows = [{"seq": 5, "subject": "s.1"}, {"seq": 6, "subject": "s.2"}]
    assert json.loads(ran(statement, "--data", str(data), "-o", "json").output) == rows
    assert [
        json.loads(line) for line in ran(statement, "--data", str(data), "-o", "ndjson").output.splitlines()
    ] == rows
    assert ran(statement, "--data", str(data), "-o", "csv").output.split() == ["seq,subject", "5,s.1", "6,s.2"]
    assert "(2 rows)" in ran(statement, "--data", str(data)).output
    stream = ran(statement, "--data", str(data), "-o", "arrow").stdout_bytes
    assert pa.ipc.open_stream(stream).read_all().to_pylist() == rows
    parquet = ran(statement, "--data", str(data), "-o", "parquet").stdout_bytes
    assert pq.read_table(io.BytesIO(parquet)).to_pylist() == rows


def test_statements_of_a_file(data: Path, tmp_path: Path) -> None:
    """One after the other; from standard input by ``-``; the first that fails ends it."""
    file = tmp_path / "statements.sql"
    file.write_text("SELECT 1 AS a; -- one\nSELECT ';' AS b;\nSELECT nothing; SELECT 3 AS c")
    found = ran("-f", str(file), "--data", str(data), "-o", "csv")
    assert found.exit_code == Exit.FAILED
    assert found.stdout.split() == ["a", "1", "b", ";"]
    assert ran("-f", "-", "--data", str(data), "-o", "csv", given="SELECT max(seq) AS m FROM S").stdout.split() == [
        "m",
        "6",
    ]
    assert ran("-f", "-", "--data", str(data), "-o", "parquet", given="SELECT 1; SELECT 2").exit_code == Exit.USAGE


def test_statements_of_a_file_share_an_engine(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a shell, the second and later ones open no DuckDB; one by itself opens one."""
    opened, real = [], duck_session._opened
    monkeypatch.setattr(duck_session, "_opened", lambda limits: opened.append(1) or real(limits))
    for statements, most in ((8, 2), (1, 1)):
        opened.clear()
        given = ";".join(["SELECT count(*) FROM S"] * statements)
        assert ran("-f", "-", "--data", str(data), "-o", "csv", given=given).stdout.split() == (
            ["count_star()", "6"] * statements
        )
        assert len(opened) <= most


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (["SELECT 1"], Exit.USAGE, "--data"),
        (["--data", "{data}"], Exit.USAGE, "terminal"),
        (["SELECT 1", "-f", "x.sql", "--data", "{data}"], Exit.USAGE, "not both"),
        (["-f", "{data}/none.sql", "--data", "{data}"], Exit.USAGE, "none.sql"),
        (["SELECT 1", "--http", "ftp://x"], Exit.USAGE, "ftp://x"),
        (["SELECT 1", "--http", "x", "--engine", "spark"], Exit.USAGE, "--engine"),
        (["SELECT 1", "--http", "127.0.0.1:1"], Exit.UNREACHABLE, "127.0.0.1:1"),
        (["FROM nope", "--data", "{data}"], Exit.FAILED, "'nope'"),
        (["FROM as_of('none', 1)", "--data", "{data}"], Exit.FAILED, "'none'"),
        (["COPY S TO 'x'", "--data", "{data}"], Exit.FAILED, "only SELECT"),
        ([LONG, "--timeout", "0.2", "--data", "{data}"], Exit.FAILED, "0.2 s"),
    ],
)
def test_failures_have_a_status_and_a_sentence(data: Path, arguments: list[str], status: Exit, named: str) -> None:
    """Each says what was wrong, and what helps."""
    found = ran(*(argument.format(data=data) for argument in arguments))
    assert (found.exit_code, named in found.output) == (status, True), found.output
    assert "Traceback" not in found.output


def test_ctrl_c_ends_a_statement(data: Path) -> None:
    """The process says so and ends; nothing is left running."""
    command = [sys.executable, "-m", "api.cli.main", "sql", LONG, "--data", str(data)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        end = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < end:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
        assert process.wait(1) in (Exit.FAILED, 130, -signal.SIGINT)


def test_the_shell(data: Path, tmp_path: Path) -> None:
    """Statements over several lines, views, completion, errors that end nothing, Ctrl-C, a history of its own."""
    with closing(Terminal(data, tmp_path)) as shell:
        _used(shell)
        assert shell.process.wait(WAIT_SECONDS) == Exit.OK
    history = tmp_path / "silt" / "sql_history"
    assert "FROM nope;" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def _used(shell: Terminal) -> None:
    shell.wait_for("silt> ")
    shell.type("SELECT max(seq) AS newest\n")
    shell.wait_for("...> ")
    shell.type("FROM S;\n")
    shell.wait_for('{"newest":6}')
    shell.type("\\d\n")
    shell.wait_for("silt_streams")
    shell.wait_for("silt> ")
    shell.type("\\d S\n")
    shell.wait_for('"column_name":"subject","column_type":"VARCHAR"')
    shell.wait_for("silt> ")
    shell.type("FROM nope;\n")
    shell.wait_for("no view")
    shell.wait_for("silt> ")
    shell.type("SELECT count(*) AS m FROM silt_st\t;\n")
    shell.wait_for('{"m":1}')
    shell.wait_for("silt> ")
    shell.type(f"{LONG};\n")
    shell.wait_for("Ctrl-C cancels")
    shell.interrupt()
    shell.wait_for("silt> ")
    shell.type("SELECT unfinished\n")
    shell.wait_for("...> ")
    shell.interrupt()
    shell.wait_for("silt> ")
    shell.type("\\q\n")


class Server(BaseHTTPRequestHandler):
    """Answers as ``/v1/sql`` does, by what was asked."""

    def do_POST(self) -> None:  # the library's name
        """Answer."""
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        key = self.headers.get("Authorization")
        bad = "nope" in asked
        status = 401 if key != "Bearer secret" else 400 if bad else 200
        body = {401: b'{"title": "no key"}', 400: b'{"detail": "no view nope"}', 200: b"a\n1\n"}[status]
        self.server.asked.append((self.path, self.headers["Accept"], asked))  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("X-Asked", f"{self.path} {self.headers['Accept']}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server at a port of its own."""
    with HTTPServer(("127.0.0.1", 0), Server) as found:
        found.asked = []  # type: ignore[attr-defined]
        Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def test_a_server_is_asked(server: HTTPServer, tmp_path: Path) -> None:
    """The statement, the format and the key go to ``/v1/sql``; its errors are told like others."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    url = f"http://127.0.0.1:{server.server_port}/"
    found = ran("SELECT 1 AS a", "--http", url, "--key-file", str(key), "-o", "csv")
    assert (found.exit_code, found.stdout) == (Exit.OK, "a\n1\n")
    assert server.asked == [("/v1/sql", "text/csv", "SELECT 1 AS a")]  # type: ignore[attr-defined]
    found = ran("FROM nope", "--http", url, "--key-file", str(key))
    assert (found.exit_code, "no view nope" in found.output) == (Exit.FAILED, True)
    found = ran("SELECT 1", "--http", url)
    assert (found.exit_code, "--key-file" in found.output) == (Exit.FAILED, True)
