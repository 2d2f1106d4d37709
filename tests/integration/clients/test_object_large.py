"""An object of a gibibyte comes back as it went, and is gone when it is deleted."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.comparable import run
from tests.servers import silt_server
from tests.tools import Missing, nats_cli

MEBIBYTE = 1 << 20
SIZE = 1024 * MEBIBYTE


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.slow
def test_a_gibibyte(tmp_path: Path) -> None:
    """The CLI puts it, checks its digest when it gets it, and deletes it: no byte of it stays in the stream."""
    try:
        cli = str(nats_cli())
    except Missing as missing:
        pytest.skip(str(missing))
    file, fetched = tmp_path / "file", tmp_path / "fetched"
    with file.open("wb") as out:
        for number in range(SIZE // MEBIBYTE):
            out.write(hashlib.sha256(b"%d" % number).digest() * (MEBIBYTE // 32))
    with silt_server(tmp_path) as silt:

        def nats(*arguments: str) -> str:
            status, text = run([cli, "--no-context", "-s", silt.hub.url, "--timeout=60s", *arguments])
            assert status == 0, text
            return text

        def state() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(nats("stream", "info", "OBJ_BIG", "--json"))["state"]
            return found

        nats("object", "add", "BIG")
        nats("object", "put", "BIG", str(file), "--name=one", "--no-progress", "--force")
        assert state()["bytes"] > SIZE
        nats("object", "get", "BIG", "one", f"--output={fetched}", "--no-progress", "--force")
        assert fetched.stat().st_size == SIZE
        assert _digest(fetched) == _digest(file)
        fetched.unlink()
        file.unlink()
        nats("object", "del", "BIG", "one", "--force")
        assert state()["messages"] == 1
        assert state()["bytes"] < MEBIBYTE
