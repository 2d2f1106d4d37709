"""``silt doctor``: checks of everything that Silt needs."""

from typing import Annotated, Final

import typer

from api.cli.options import data_option
from api.cli.output import Format, Output, OutputOption
from conf.data_location import DataLocation, data_location
from conf.exit_codes import Exit

_DATA: Final = data_location("silt-data")


def doctor(
    *,
    data: Annotated[DataLocation, data_option("Folder or URL to check the storage of.")] = _DATA,
    nats: Annotated[str | None, typer.Option(envvar="NATS_URL", help="NATS server to look for.")] = None,
    leaf: Annotated[str | None, typer.Option(help="Leafnode listener to look for.")] = None,
    fetch_jars: Annotated[
        bool,
        typer.Option(
            "--fetch-jars", help="Only check what is installed, fetch missing jars, and archive Spark's classes."
        ),
    ] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Check Python, Java, Spark, its jars, nats-server, NATS, the leafnode listener, the storage and settling.

    Each failure comes with what to do about it. Beside a running ``silt up`` its own nats-server is looked for.
    Exit codes: 0 all is well; 1 something is missing.
    """
    from api.hub.hub_config import HUB_FOLDER
    from api.hub.hub_process import running_hub
    from api.up import doctor as checks
    from conf.settings import load_settings

    found = [check() for check in checks.installed_checks()]
    if fetch_jars:
        able = all(check.ok for check in found if check.name in {"java", "spark"})
        found.append(checks.fetch_jars(data) if able else checks.check_jars(data))
    else:
        settings = load_settings()
        found.append(checks.check_jars(data))
        hub = running_hub(data.local_folder(settings.storage) / HUB_FOLDER)
        found.append(checks.check_nats(nats or (hub.url if hub else settings.nats.url)))
        found.append(checks.check_leaf(leaf or (hub.leaf_url if hub else settings.nats.leaf_url)))
        location = data.with_settings(settings.storage)
        found.append(checks.check_storage(location))
        found.append(checks.check_settling(location, settings.journal))
    rows = [
        (check.name, "ok" if check.ok else "FAILED", check.found, "" if check.ok else check.advice) for check in found
    ]
    Output(output).table(("check", "result", "found", "what to do"), rows)
    if not all(check.ok for check in found):
        raise typer.Exit(Exit.FAILED)
