"""Two JetStreams in domains of their own: a nats-server's in ``hub``, Silt's or a nats-server's in ``silt``."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

from tests.hubs import free_port
from tests.servers import Child, NatsServer, gateway_command, nats_server, nats_server_binary

WAIT = 200.0
"""Seconds; a nats-server that copies asks again after thirty where nobody answered."""
_TIMES = ("active", "created", "ts", "first_ts", "last_ts", "time", "Nats-Time-Stamp")
MASKED = frozenset((*_TIMES, "cluster", "metadata", "bytes", "hdrs"))
_SOURCE = "Nats-Stream-Source"
Json = dict[str, Any]


@contextmanager
def hub_with_jetstream(folder: Path, binary: Path | None = None) -> Iterator[NatsServer]:
    """A nats-server (``binary``: of another version) with a JetStream in the domain ``hub`` and a leafnode listener."""
    folder.mkdir(parents=True)
    with nats_server(folder / "ports", leaf=True) as free:
        assert free.leaf_url is not None
        port, leaf_port = (url.rpartition(":")[2] for url in (free.url, free.leaf_url))
    config = folder / "hub.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\nleafnodes {{ listen: 127.0.0.1:{leaf_port} }}\n"
        f"jetstream {{ domain: hub, store_dir: {json.dumps(str(folder / 'jetstream'))} }}\n"
    )
    child = Child([str(binary or nats_server_binary()), "-c", str(config)], folder / "hub.log")
    child.start()
    try:
        yield NatsServer(child, f"nats://127.0.0.1:{port}", f"nats://127.0.0.1:{leaf_port}")
    finally:
        child.stop()


@dataclass(frozen=True, slots=True)
class Domains:
    """Both servers; clients connect to the hub."""

    hub: NatsServer
    other: Child


@contextmanager
def two_domains(
    folder: Path, *, silt: bool = True, api_over: str = "client", binary: Path | None = None
) -> Iterator[Domains]:
    """Run both until the block ends; without ``silt`` the other is a nats-server, too; ``binary`` is the hub's."""
    with hub_with_jetstream(folder / "hub", binary) as hub:
        if silt:
            command = [*gateway_command(hub, folder / "data", api_over=api_over), "--domain", "silt"]
        else:
            config = folder / "other.conf"
            config.write_text(
                "listen: 127.0.0.1:-1\n"
                f"jetstream {{ domain: silt, store_dir: {json.dumps(str(folder / 'other'))} }}\n"
                f'leafnodes {{ remotes: [{{ url: "{hub.leaf_url}" }}], reconnect: 1 }}\n'
            )
            command = [str(nats_server_binary()), "-c", str(config)]
        other = Child(command, folder / "other.log")
        other.start()
        try:
            yield Domains(hub, other)
        finally:
            other.stop()


ACCOUNTS = """
accounts {
  RI {
    jetstream: enabled, users: [{ user: ri, password: p }]
    exports: [{ service: "$JS.API.CONSUMER.>" }, { stream: "RI.DELIVER.>" }, { service: "$JS.FC.>" }]
  }
  IA {
    users: [{ user: ia, password: p }]
    imports: [
      { service: { account: RI, subject: "$JS.API.CONSUMER.>" }, to: "RI.JS.API.CONSUMER.>" }
      { stream: { account: RI, subject: "RI.DELIVER.>" } }
      { service: { account: RI, subject: "$JS.FC.>" } }
    ]
  }
}
"""
"""Two accounts, as nats-server's own tests of copies across accounts have them."""


@contextmanager
def two_accounts(folder: Path) -> Iterator[str]:
    """Run a nats-server with JetStream in account ``RI`` and Silt in account ``IA``; yield the server's address.

    Silt has the domain ``silt``. Users are ``ri`` and ``ia``, with the password ``p``.
    """
    folder.mkdir(parents=True)
    port, leaf_port = free_port(), free_port()
    config = folder / "hub.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\njetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'))} }}\n{ACCOUNTS}"
        f"leafnodes {{ listen: 127.0.0.1:{leaf_port}\n"
        "authorization { users: [{ user: leaf, password: p, account: IA }] } }\n"
    )
    child = Child([str(nats_server_binary()), "-c", str(config)], folder / "hub.log")
    hub = NatsServer(child, f"nats://127.0.0.1:{port}", f"nats://127.0.0.1:{leaf_port}")
    logins = {"USER": "ia", "PASSWORD": "p", "LEAF_USER": "leaf", "LEAF_PASSWORD": "p"}
    command = [*gateway_command(hub, folder / "data", api_over="client"), "--domain", "silt"]
    silt = Child(command, folder / "silt.log", {f"SILT_NATS__{name}": value for name, value in logins.items()})
    child.start()
    try:
        child.wait_log(re.compile("Server is ready"))
        silt.start()
        yield f"127.0.0.1:{port}"
    finally:
        silt.stop()
        child.stop()


def use(
    hub: NatsServer, script: Callable[[Client], Awaitable[Any]], *, domains: Sequence[str] = ("hub", "silt")
) -> Any:
    """Run a client's steps, once these domains answer."""

    async def quiet(_: Exception) -> None:
        pass

    async def main() -> Any:
        connection = await nats.connect(
            hub.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet, allow_reconnect=True
        )
        try:
            for domain in domains:
                await api(connection, domain, "INFO")
            return await script(connection)
        finally:
            await connection.close()

    return asyncio.run(main())


async def api(connection: Client, domain: str, subject: str, body: Any = None) -> Json:
    """One request of a domain's JetStream API, repeated until it is answered."""
    payload = b"" if body is None else json.dumps(body).encode()
    async with asyncio.timeout(WAIT):
        while True:
            try:
                reply = await connection.request(f"$JS.{domain}.API.{subject}", payload, timeout=2)
            except NatsError:
                await asyncio.sleep(0.05)
                continue
            answer: Json = json.loads(reply.data)
            if answer.get("error", {}).get("err_code") != 10008:
                return answer
            await asyncio.sleep(0.05)


async def reaches(connection: Client, domain: str, stream: str, seq: int) -> Json:
    """Wait until a stream's last sequence is ``seq``; return its info."""
    return await until(connection, domain, stream, lambda info: info["state"]["last_seq"] >= seq)


async def until(
    connection: Client, domain: str, stream: str, holds: Callable[[Json], object], *, seconds: float = WAIT
) -> Json:
    """Wait until a stream's info is as wanted; return it."""
    info: Json = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                info = await api(connection, domain, f"STREAM.INFO.{stream}")
                if "error" not in info and holds(info):
                    return info
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{stream} of {domain} did not become what it should: {info}") from None


async def direct(connection: Client, name: str, *, seconds: float = WAIT) -> Any:
    """The answer of the domain ``silt`` to a Direct Get: payload and header without its time, None for none."""
    try:
        found = await connection.request(f"$JS.silt.API.DIRECT.GET.{name}", b'{"seq":3}', timeout=seconds)
    except NatsError:
        return None
    header = found.headers or {}
    return found.data, {key: value for key, value in header.items() if key != "Nats-Time-Stamp"}


def masked(value: Any) -> Any:
    """A reply without what differs from run to run, such as the origin's identity in the header of a source's copy."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in MASKED}
        return {key: _anonymous(one) if key == _SOURCE else masked(one) for key, one in kept.items()}
    return [masked(one) for one in value] if isinstance(value, list) else value


def _anonymous(header: str | list[str]) -> str | list[str]:
    return header.rpartition(" ")[0] if isinstance(header, str) else [one.rpartition(" ")[0] for one in header]
