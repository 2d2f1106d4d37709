"""The process of the embedded nats-server: start, wait until it answers, stop. It dies with its parent (Linux).

The server picks free ports itself and logs them, so no port is taken between choice and use.
"""

import asyncio
import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from api.hub.hub_config import HubConfig
from api.process.parent_death import die_with
from conf.limits import HUB_LOG_POLL_SECONDS
from delta_store.storage.private_files import make_private_folder, write_private

_CLIENTS = re.compile(r"Listening for (?:TLS )?client connections on \S*?:(\d+)$", re.MULTILINE)
_LEAFS = re.compile(r"Listening for leafnode connections on \S*?:(\d+)$", re.MULTILINE)


class HubNotStarted(RuntimeError):
    """The server ended early or did not answer in time; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class HubAddress:
    """The addresses of a started hub's listeners."""

    host: str
    port: int
    leaf_port: int

    @property
    def url(self) -> str:
        """URL for clients."""
        return f"nats://{self.host}:{self.port}"

    @property
    def leaf_url(self) -> str:
        """URL for the leaf link."""
        return f"nats-leaf://127.0.0.1:{self.leaf_port}"


def running_hub(folder: Path) -> HubAddress | None:
    """Return the addresses of the hub that runs in a folder; None when none does."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(HubConfig(folder).address_file.read_bytes())
        os.kill(int(said.pop("pid")), 0)
        return HubAddress(**said)
    return None


class HubProcess:
    """One nats-server child; started once, stopped once."""

    def __init__(self, binary: Path, config: HubConfig) -> None:
        self._binary = binary
        self._config = config
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the child, which must have been started."""
        assert self._process is not None
        return self._process.pid

    async def start(self, timeout: float) -> HubAddress:
        """Start the server and wait until both listeners answer. Raises :class:`HubNotStarted`; nothing runs then."""
        config = self._config
        make_private_folder(config.folder)
        write_private(config.config_file, config.render())
        with config.log_file.open("ab") as log:
            before = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                str(self._binary),
                "-c",
                str(config.config_file),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C must reach us alone: we stop the hub after draining
                preexec_fn=die_with(os.getpid()),
            )
        try:
            async with asyncio.timeout(timeout):
                address = await self._ready(before)
            write_private(config.address_file, json.dumps(asdict(address) | {"pid": self.pid}) + "\n")
        except (TimeoutError, OSError) as error:
            self._kill()
            raise HubNotStarted(
                f"nats-server did not answer within {timeout} s\n{self._log(before)[-2000:]}"
            ) from error
        except BaseException:
            self._kill()
            raise
        return address

    async def wait(self) -> int:
        """Wait until the server ends; return its exit status, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self, timeout: float) -> int:
        """Send SIGTERM, then SIGKILL if it still runs after ``timeout`` seconds; return the exit status."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout):
                return await self._process.wait()
        except TimeoutError:
            self._kill()
            return await self._process.wait()
        except BaseException:
            self._kill()
            raise

    async def _ready(self, before: int) -> HubAddress:
        assert self._process is not None
        while True:
            log = self._log(before)
            clients, leafs = _CLIENTS.search(log), _LEAFS.search(log)
            if clients and leafs:
                break
            if self._process.returncode is not None:
                raise HubNotStarted(f"nats-server ended with status {self._process.returncode}\n{log[-2000:]}")
            await asyncio.sleep(HUB_LOG_POLL_SECONDS)
        address = HubAddress(_reachable(self._config.host), int(clients[1]), int(leafs[1]))
        await _answers(address.host, address.port)
        await _answers("127.0.0.1", address.leaf_port)
        return address

    def _log(self, before: int) -> str:
        """Return the server's log since this start."""
        with self._config.log_file.open("rb") as log:
            log.seek(before)
            return log.read().decode(errors="replace")

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def _reachable(host: str) -> str:
    """Return the address to connect to for a listener's address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  # compared, not bound


async def _answers(host: str, port: int) -> None:
    """Connect and wait for the server's INFO. Raises ``OSError``."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        if await reader.read(5) != b"INFO ":
            raise ConnectionError(f"{host}:{port} is not nats-server")
    finally:
        writer.close()
