"""``silt up``: everything on one machine."""

import asyncio
from typing import Annotated

import typer

from api.cli.endings import ended
from api.cli.options import DataOption
from conf.exit_codes import Exit


def up(
    data: DataOption,
    *,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for NATS clients; 0 takes a free one; default from the settings."),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the HTTP API; 0 takes a free one; default from the settings."),
    ] = None,
) -> None:
    """Run nats-server, gateway, settle job and HTTP API until Ctrl-C.

    Prints one line, "ready nats://... http://...", when NATS and HTTP answer; where the store is large, says then on
    standard error that it is being opened, and when it is open. Ctrl-C or SIGTERM drains and stops them in order; a
    second one stops them at once. Settings that say where another nats-server is are refused. Exit codes: 0 stopped as
    asked; 1 a part could not be started, or the store not opened; 2 wrong usage; 3 another silt up runs on the folder.
    """
    from api.process.child_process import ChildFailed
    from api.up.supervisor import Supervisor, UpOptions
    from api.up.up_settings import refuse_foreign_server, refuse_unsettled, share_config
    from conf.clock import SystemClock
    from conf.settings import load_settings
    from delta_store.storage.private_files import make_private_folder
    from delta_store.storage.store_lock import FolderInUse

    settings = load_settings(hub={"port": port}, http={"port": http_port})
    refuse_foreign_server(settings)
    refuse_unsettled(data)
    share_config()
    folder = data.local_folder(settings.storage)
    make_private_folder(folder)
    options = UpOptions(data, folder, settings.hub.port, settings.http.port)
    try:
        asyncio.run(Supervisor(options, settings, clock=SystemClock()).run())
    except FolderInUse as error:
        raise ended("up", error, Exit.IN_USE) from None
    except ChildFailed as error:
        raise ended("up", error) from None
