"""``silt stream backup|restore``: a stream's archive in a folder as the nats CLI's, of now or of a past point.

An increment holds what has come since, and which earlier messages are still there.
"""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from api.cli import jetstream_run
from api.cli.backup_folder import BackupFolder, NoBackup
from api.cli.endings import ended
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed
from conf.exit_codes import Exit
from consumers.client import backups
from consumers.client.api_call import Api
from consumers.client.errors import TransferFailed
from delta_store.archive.entries import FROM_SEQ
from delta_store.values.point_shape import AS_OF

FolderArgument = Annotated[Path, typer.Argument(help="The backup's folder.")]
_SHOWN: Final = ("stream", "messages", "first_seq", "last_seq", "consumers", "bytes", "folder")


def backup(  # noqa: PLR0913  # options, by name
    name: Annotated[str, typer.Argument(help="The stream's name.")],
    folder: FolderArgument,
    *,
    as_of: AsOfOption = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Add to the backup in the folder what has come or gone since.")
    ] = False,
    consumers: Annotated[bool, typer.Option(help="With the consumers, unless it is of a past point.")] = True,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Write a stream, as it stands or as it stood at a point, to a new folder, for any nats-server 2.15 or Silt."""
    point, place = fixed(as_of), BackupFolder(folder)
    if not incremental and not place.is_new:
        raise ended("stream", f"{folder} is there already: give a new or an empty folder, or --incremental", Exit.USAGE)
    before = _notes(place) if incremental else []
    request: dict[str, Any] = {AS_OF: point} if point else {}
    request |= {} if consumers else {"no_consumers": True}
    request |= {FROM_SEQ: before[-1]["state"]["last_seq"] + 1} if before else {}

    async def work(api: Api) -> dict[str, Any]:
        async with backups.backup(api, name, request) as taken:
            created = (await api.call(f"STREAM.INFO.{name}"))["created"]
            _check_follows(before, taken, created)
            note = {"config": taken.config, "state": taken.state, "created": created}
            await place.add(len(before), taken.chunks, note)
            return note

    _show(jetstream_run.run_api(_verb(name), work, server, context), place, output)


def restore(
    folder: FolderArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Make a stream of a backup by Silt or the nats CLI, with its increments: whole, or not at all."""
    place = BackupFolder(folder)
    notes = _notes(place)
    said = {key: notes[-1][key] for key in ("config", "state")}

    async def work(api: Api) -> dict[str, Any]:
        return await backups.restore(api, said, place.content(len(notes)))

    _show(jetstream_run.run_api(_verb(said["config"]["name"]), work, server, context), place, output)


def _notes(place: BackupFolder) -> list[dict[str, Any]]:
    try:
        return place.notes()
    except NoBackup as error:
        raise ended("stream", str(error), Exit.USAGE) from None


def _check_follows(before: list[dict[str, Any]], taken: backups.Backup, created: str) -> None:
    """Refuse an increment that does not follow the archives before it."""
    if not before:
        return
    last = before[-1]
    if last.get("created") != created or last["config"]["name"] != taken.config["name"]:
        why = "it was not written by silt stream backup" if "created" not in last else "it is of another stream"
        raise TransferFailed(f"nothing can be added to this backup, as {why}: make a whole one in a new folder")
    if taken.told.get(FROM_SEQ) != last["state"]["last_seq"] + 1:
        raise TransferFailed("the server makes no incremental backups: make a whole one in a new folder")
    if taken.state["last_seq"] < last["state"]["last_seq"]:
        raise TransferFailed("the backup in the folder is of a later point")


def _show(found: dict[str, Any], place: BackupFolder, output: Format) -> None:
    state = found["state"]
    counts = (state["messages"], state["first_seq"], state["last_seq"], state.get("consumer_count", 0))
    values = (found["config"]["name"], *counts, place.size, str(place.path))
    Output(output).record(dict(zip(_SHOWN, values, strict=True)))


def _verb(name: str) -> Verb:
    return Verb("stream", f"there is no stream {name!r}; silt stream ls lists those that there are")
