"""Exits that need a store or a server: damage, locks, ports, names that are not there, servers that say nothing."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from conf.exit_codes import Exit
from delta_store.storage.store_lock import settle_lock, store_lock, up_lock
from tests.servers import Gateway, silt_server
from tests.stores import Both, empty, lose_adds

SECONDS = 240
NOWHERE = ["--nats", "nats://127.0.0.1:1", "--leaf", "nats-leaf://127.0.0.1:1"]


def said(*arguments: object) -> tuple[int, str]:
    """Run ``silt`` to its end: its status and what it told people, on either stream."""
    silt = Path(sys.executable).with_name("silt")
    command = [str(silt), *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SILT_")}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=env)
    return ran.returncode, ran.stderr


def check(outcome: tuple[int, str], status: Exit, *names: object) -> None:
    """The status, one short text that names the things, and nothing that is for programmers."""
    text = " ".join(outcome[1].split())
    assert outcome[0] == status, outcome
    for name in names:
        assert re.search(str(name), text), outcome
    assert "Traceback" not in text
    assert not re.search(r":$|: *;|None|Error\(", text), outcome
    assert 0 < len(text) < 1200, outcome


@contextmanager
def listening() -> Iterator[int]:
    """A port that is taken by somebody who never says anything."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        yield taken.getsockname()[1]


@pytest.fixture
def damaged(tmp_path: Path) -> Both:
    """A store with an empty entry amid the journal's log."""
    store = Both(tmp_path / "data")
    empty(store.entry(2, "journal"))
    return store


@pytest.mark.parametrize(
    "command",
    [["gateway", *NOWHERE], ["serve", "--http-port", "0", "--http-only"], ["verify"], ["repair", "--yes"]],
    ids=lambda value: value[0],
)
def test_a_damaged_journal(command: list[str], damaged: Both) -> None:
    """Whoever opens it names the entry and says what to do next."""
    outcome = said(*command, "--data", damaged.data)
    if command[0] in ("gateway", "serve"):
        check(outcome, Exit.FAILED, damaged.entry(2, "journal").name, "silt verify")
    else:
        check(outcome, Exit.FAILED, "journal: can't be read", "damaged: see above")


def test_settling_a_table_without_a_log_or_a_journal(tmp_path: Path) -> None:
    """The settle job looks at what it goes on from before it starts Spark."""
    store = Both(tmp_path / "data")
    shutil.rmtree(store.entry().parent)
    shutil.rmtree(store.data / "journal")
    check(said("settle", "--once", "--data", store.data), Exit.FAILED, store.data / "messages", "silt verify")


@pytest.mark.slow
def test_settling_a_damaged_table(tmp_path: Path) -> None:
    """What Spark alone would pass over is told by name."""
    store = Both(tmp_path / "data", relied=True)
    empty(store.entry(1))
    status, text = said("settle", "--once", "--data", store.data)
    check((status, text.splitlines()[-1]), Exit.FAILED, store.entry(1).name)


@pytest.mark.parametrize("harm", [empty, lose_adds])
def test_sql_over_a_damaged_table(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """No answer is better than a wrong one."""
    store = Both(tmp_path / "data", relied=True)
    harm(store.entry(1))
    status, text = said("sql", "SELECT count(*) FROM S", "--data", store.data)
    check((status, text[text.rfind("silt sql:") :]), Exit.FAILED, "^silt sql:", "messages", "damaged")


def test_a_folder_that_another_process_has(tmp_path: Path) -> None:
    """Each says which folder it is, and ends with the status that its help lists for it."""
    with store_lock(tmp_path):
        check(said("gateway", "--data", tmp_path, *NOWHERE), Exit.IN_USE, tmp_path, str(os.getpid()))
        check(said("repair", "--data", tmp_path), Exit.IN_USE, tmp_path, str(os.getpid()))
    with settle_lock(tmp_path):
        check(said("settle", "--data", tmp_path), Exit.IN_USE, tmp_path)
        check(said("repair", "--data", tmp_path), Exit.IN_USE, tmp_path)
    with up_lock(tmp_path):
        check(said("up", "--data", tmp_path, "--port", 0, "--http-port", 0), Exit.IN_USE, tmp_path, str(os.getpid()))


def test_a_port_that_another_process_has(tmp_path: Path) -> None:
    """The port is named, whichever listener wanted it."""
    with listening() as port:
        check(said("serve", "--data", tmp_path, "--http-only", "--http-port", port), Exit.FAILED, port)
        check(said("up", "--data", tmp_path, "--http-port", 0, "--port", port), Exit.FAILED, port)
        check(said("up", "--data", tmp_path, "--port", 0, "--http-port", port), Exit.FAILED, port)


def test_a_server_that_says_nothing_and_one_without_jetstream(tmp_path: Path) -> None:
    """The address is named, after seconds and not minutes."""
    with listening() as port:
        for verb in (("stream", "ls"), ("stream", "info", "S"), ("kv", "get", "B", "k")):
            check(said(*verb, "-s", f"nats://127.0.0.1:{port}"), Exit.UNREACHABLE, port)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with nothing in it."""
    with silt_server(tmp_path_factory.mktemp("exits")) as running:
        yield running


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["stream", "info", "NOPE"], "NOPE"),
        (["kv", "get", "NOPE", "k"], "NOPE"),
        (["kv", "ls", "NOPE"], "NOPE"),
        (["kv", "history", "NOPE", "k"], "NOPE"),
        (["kv", "get", "NOPE", "k", "--as-of", "1"], "NOPE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_names_that_are_not_there(command: list[str], name: str, server: Gateway) -> None:
    """A stream or bucket that there is not has a status of its own, and the text says what is missing."""
    check(said(*command, "-s", server.hub.url), Exit.NOT_FOUND, name)
