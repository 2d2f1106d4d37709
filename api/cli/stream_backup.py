"""``silt stream backup|restore``: a stream's archive in a folder as the nats CLI's, of now or of a past point."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from api.cli import jetstream_run
from api.cli.endings import ended
from api.cli.jetstream_run import Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed
from conf.exit_codes import Exit
from consumers.client import backups
from consumers.client.api_call import Api
from delta_store.values.point_shape import AS_OF

DATA_FILE: Final = "stream.tar.s2"
META_FILE: Final = "backup.json"
_CHUNK_BYTES: Final = 128 * 1024
FolderArgument = Annotated[Path, typer.Argument(help="The backup's folder.")]
_SHOWN: Final = ("stream", "messages", "first_seq", "last_seq", "consumers", "bytes", "folder")


def backup(  # noqa: PLR0913  # options, by name
    name: Annotated[str, typer.Argument(help="The stream's name.")],
    folder: FolderArgument,
    *,
    as_of: AsOfOption = None,
    consumers: Annotated[bool, typer.Option(help="With the consumers, unless it is of a past point.")] = True,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Write a stream, as it stands or as it stood at a point, to a new folder, for any nats-server 2.15 or Silt."""
    point = fixed(as_of)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ended("stream", f"{folder} is there already: give a new or an empty folder", Exit.USAGE)
    request: dict[str, Any] = {AS_OF: point} if point else {}
    request |= {} if consumers else {"no_consumers": True}

    async def work(api: Api) -> dict[str, Any]:
        async with backups.backup(api, name, request) as taken:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{DATA_FILE}.part"
            with part.open("wb") as file:
                async for chunk in taken.chunks:
                    file.write(chunk)
            part.rename(folder / DATA_FILE)
            meta = {"config": taken.config, "state": taken.state}
            (folder / META_FILE).write_text(json.dumps(meta, indent=2))
            return meta

    _show(jetstream_run.run_api(_verb(name), work, server, context), folder, output)


def restore(
    folder: FolderArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Make a stream of a backup by Silt or the nats CLI: whole, or not at all."""
    try:
        meta = json.loads((folder / META_FILE).read_bytes())
        name = meta["config"]["name"]
        size = (folder / DATA_FILE).stat().st_size
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ended("stream", f"{folder} is no backup: {error}", Exit.USAGE) from None
    if not size:
        raise ended("stream", f"{folder / DATA_FILE} is empty: the backup was not finished", Exit.USAGE)

    async def work(api: Api) -> dict[str, Any]:
        return await backups.restore(api, meta, _chunks(folder / DATA_FILE))

    _show(jetstream_run.run_api(_verb(name), work, server, context), folder, output)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _show(found: dict[str, Any], folder: Path, output: Format) -> None:
    state = found["state"]
    counts = (state["messages"], state["first_seq"], state["last_seq"], state.get("consumer_count", 0))
    values = (found["config"]["name"], *counts, (folder / DATA_FILE).stat().st_size, str(folder))
    Output(output).record(dict(zip(_SHOWN, values, strict=True)))


def _verb(name: str) -> Verb:
    return Verb("stream", f"there is no stream {name!r}; silt stream ls lists those that there are")
