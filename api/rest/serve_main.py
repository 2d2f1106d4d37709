"""The reader process: ``python -m api.rest.serve_main --data DIR --http-port N [--nats URL --leaf URL]``.

It serves HTTP from the tables, and Direct Get over NATS if a server is given. It holds no lock and writes nothing, so
any number may run; its data may be ``reads.refresh_interval_ms`` old. It prints ``{"ready": true, "url": …}`` when it
answers; while a large store opens, requests get 503 with the progress. It ends with status 0 on SIGTERM or SIGINT, 1
on an error, which it names.
"""

import argparse
import asyncio
import json
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from api.process.error_leaves import leaves
from api.process.process_arguments import add_data_argument, add_nats_arguments, settings_under
from api.rest.app import create_app
from api.rest.keys import open_keyring
from api.rest.open_door import refuse_open_door
from api.rest.services import Services
from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.limits import OPENING_TOLD_SECONDS
from conf.log import configure_log, log
from conf.setting_sources import SettingsError
from conf.settings import Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from delta_store.values.read_errors import DamagedData, ReadError

if TYPE_CHECKING:
    from api.responder.responder_links import ResponderLinks, ResponderOptions

BACKLOG = 2048
OPENING_SECONDS = 0.5
"""Seconds to wait for the store before the ready line; most are open by then."""
CLOSE_SECONDS = 5
"""Seconds that open HTTP requests have to end when the process stops."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The arguments of the command line."""

    data: DataLocation
    http_port: int
    responder: "ResponderOptions | None"


class HttpServer(uvicorn.Server):
    """Uvicorn without signal handling, with an event for its readiness."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then set :attr:`ready`."""
        await super().startup(sockets)
        self.ready.set()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; return the exit status."""
    options, settings = parse(arguments)
    configure_log("serve")
    try:
        uvloop.run(_serve(options, settings))
    except (ReadError, OSError, ValueError) as error:
        return _failed(error)
    except ExceptionGroup as group:
        known = group.subgroup((ReadError, OSError, TimeoutError))
        if known is None:
            raise
        return _failed(next(leaves(known)))
    return 0


def _failed(error: BaseException) -> int:
    """Print the error that ended the process, with advice if the store is damaged; return the exit status."""
    hint = "; run: silt verify" if isinstance(error, DamagedData) else ""
    sys.stderr.write(f"silt serve: {error_text(error)}{hint}\n")
    return 1


def parse(arguments: Sequence[str] | None) -> tuple[ServeOptions, Settings]:
    """Parse the command line over the settings; exits with status 2 if either is wrong."""
    parser = argparse.ArgumentParser(prog="silt serve", description="Answer HTTP and Direct Get from the tables.")
    add_data_argument(parser)
    parser.add_argument("--http-port", type=int, help="0 takes a free one (default: the setting http.port)")
    parser.add_argument("--http-only", action="store_true", help="no Direct Get, whatever the settings name")
    add_nats_arguments(parser)
    given = parser.parse_args(arguments)
    settings = settings_under(parser, given, http={"port": given.http_port})
    try:
        refuse_open_door(settings.http)
        open_keyring(settings.http)
    except SettingsError as error:
        parser.error(str(error))
    data = given.data.with_settings(settings.storage)
    chosen = settings.nats.model_fields_set & {"url", "leaf_url"}
    responder = None
    if chosen and not given.http_only:
        if len(chosen) == 1:
            parser.error("--nats and --leaf (the settings nats.url and nats.leaf_url) go together")
        from api.responder.responder_links import ResponderOptions

        nats = settings.nats
        responder = ResponderOptions(nats.url, nats.leaf_url, nats.domain or "", nats.api_over == "leaf")
    return ServeOptions(data, settings.http.port, responder), settings


async def _serve(options: ServeOptions, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reads = settings.reads
    threads = ReadThreads(reads.concurrency_max, timeout_seconds=reads.timeout_seconds)
    replica = Replica(
        options.data.uri,
        threads,
        clock=SystemClock(),
        domain=settings.nats.domain or "",
        storage_options=options.data.options,
        cache_bytes=reads.cache_bytes_max,
    )
    listener = _listen(settings.http.host, options.http_port)
    try:
        services = _services(options, settings)
        server = HttpServer(
            uvicorn.Config(
                create_app(replica, settings, services),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=CLOSE_SECONDS,
                ssl_certfile=settings.http.tls_certificate_file,
                ssl_keyfile=settings.http.tls_key_file,
            )
        )
        links = _links(options, settings, replica)
        async with asyncio.TaskGroup() as tasks:
            opened = asyncio.Event()
            running = [tasks.create_task(_follow(replica, links, opened, reads.refresh_interval_ms / 1000))]
            running.append(tasks.create_task(_say_ready(server, opened, links, listener)))
            http = tasks.create_task(server.serve([listener]))
            await stop.wait()
            services.stopping.set()
            server.should_exit = True
            await http
            await services.close()
            for task in running:
                task.cancel()
    finally:
        listener.close()
        replica.opening.abandon()
        threads.close()


def _services(options: ServeOptions, settings: Settings) -> Services:
    """Return the services of the process; none of them is started."""
    from api.rest.publisher import publisher_of
    from api.rest.shared_files import SharedFiles
    from api.rest.sql_desk import SqlDesk

    sql = SqlDesk(options.data, settings.http) if settings.http.sql_processes_max else None
    shared = None if sql is None else SharedFiles(sql, SystemClock())
    return Services(publisher_of(settings), sql, shared)


def _links(options: ServeOptions, settings: Settings, replica: Replica) -> "ResponderLinks | None":
    """Return the responder's links, imported only if needed; None without a NATS server."""
    if options.responder is None:
        return None
    from api.responder.responder_links import ResponderLinks

    return ResponderLinks(options.responder, settings, replica.reader)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; called first, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"can't listen on {host}:{port}: {error}") from error
    listener.listen(BACKLOG)
    return listener


async def _follow(replica: Replica, links: "ResponderLinks | None", opened: asyncio.Event, interval: float) -> None:
    """Open the store, then follow it and serve Direct Get over NATS; raises the errors of opening."""
    async with asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(_tell_opening(replica))
        await replica.open()
        telling.cancel()
    opened.set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(replica.run(interval))
        if links is not None:
            tasks.create_task(links.run())


async def _tell_opening(replica: Replica) -> None:
    """Log now and then that the store is still opening."""
    while True:
        await asyncio.sleep(OPENING_TOLD_SECONDS)
        log.info("opening the store", progress=str(replica.opening))


async def _say_ready(
    server: HttpServer, opened: asyncio.Event, links: "ResponderLinks | None", listener: socket.socket
) -> None:
    await server.ready.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(OPENING_SECONDS):
            await opened.wait()
    if links is not None:
        await opened.wait()
        await links.attached()
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound
    scheme = "https" if server.config.is_ssl else "http"
    url = f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"
    sys.stdout.write(json.dumps({"ready": True, "url": url, "port": port}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
