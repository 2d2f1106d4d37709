"""Hostile SQL where users send it: to the HTTP API, and to the shell."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from typer.testing import CliRunner

from api.cli.app import app as silt
from conf.exit_codes import Exit
from tests import hostile_sql
from tests.guarded_store import HIDDEN, Guarded, guarded_store
from tests.servers import Child, http_open, wait_until
from tests.sql_terminal import WAIT_SECONDS, Terminal

READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)

URL_LENGTH_MAX = 60_000
"""What the client takes."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """A store with what nobody may read."""
    return guarded_store(tmp_path_factory.mktemp("guarded"))


@pytest.fixture(scope="module")
def http(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of an HTTP process over the store, whose key opens stream S alone."""
    folder = tmp_path_factory.mktemp("serve")
    made = CliRunner().invoke(silt, ["key", "new", "s", "--scope", "read:S", "--file", str(folder / "keys.toml")])
    command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(guarded.data), "--http-port", "0"]
    environment = {
        "SILT_HTTP__API_KEYS_FILE": str(folder / "keys.toml"),
        "SILT_HTTP__SQL_TIMEOUT_SECONDS": "5",
        "SILT_HTTP__SQL_MEMORY_MIB": "64",
        "HOME": str(guarded.outside),
    }
    child = Child([*command, "--http-only"], folder / "serve.log", environment)
    child.start()
    try:
        url = json.loads(child.wait_log(READY, seconds=WAIT_SECONDS)[1])["url"]
        wait_until(lambda: http_open(url), what="the store is open", log=child.log)
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        with httpx.Client(base_url=url, headers=headers, timeout=WAIT_SECONDS) as client:
            yield client
    finally:
        child.stop()


def answered(http: httpx.Client, text: str, *, by_get: bool) -> tuple[int, str]:
    """Return status and body of an answer; 0 for one that was broken off."""
    body = text.encode(errors="surrogatepass")
    try:
        answer = http.get(f"/v1/sql?query={quote(body)}") if by_get else http.post("/v1/sql.ndjson", content=body)
    except httpx.RemoteProtocolError as error:
        return 0, str(error)
    return answer.status_code, answer.text


@pytest.mark.parametrize("by_get", [False, True])
def test_the_http_api_gives_nothing_away(guarded: Guarded, http: httpx.Client, *, by_get: bool) -> None:
    """Each text is refused, or answered with nothing that its key does not open; nothing is written; it goes on."""
    before = guarded.prints()
    for text in hostile_sql.ALL[:: 4 if by_get else 1]:
        asked = guarded.filled(text)
        if by_get and len(quote(asked, errors="surrogatepass")) > URL_LENGTH_MAX:
            continue
        status, shown = answered(http, asked, by_get=by_get)
        assert status in {200, 400, 404, 504}, (status, text)  # 504: on a busy machine
        assert guarded.told_by(shown, asked) == [], text
    for text in hostile_sql.ENDLESS[by_get::4]:
        status, _ = answered(http, text, by_get=by_get)
        assert status not in {200, 500}, text
    assert guarded.prints() == before
    assert http.get("/v1/sql", params={"query": "SELECT text FROM S"}).json() == [{"text": "shown"}]


def test_the_shell_gives_nothing_away(guarded: Guarded, tmp_path: Path) -> None:
    """Whoever types them learns nothing but what the streams show, writes nothing but history, and can go on."""
    before = guarded.prints()
    with closing(Terminal(guarded.data, tmp_path)) as shell:
        shell.wait_for("silt> ")
        for text in hostile_sql.ALL:
            if text in hostile_sql.NESTED:
                continue
            asked = guarded.filled(text)
            shell.type(f"{asked};\nSELECT 40 + 2 AS next;\n")
            shown = shell.wait_for('{"next":42}').replace(HIDDEN, "")
            assert guarded.told_by(shown, asked) == [], text
        shell.wait_for("silt> ")
        shell.type("\\q\n")
        assert shell.process.wait(WAIT_SECONDS) == Exit.OK
    assert guarded.prints() == before
