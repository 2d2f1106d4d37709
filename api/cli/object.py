"""``silt object get|ls``: objects of a bucket now, and at any point within the history horizon."""

import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Annotated, Any, NamedTuple

import typer

from api.cli import jetstream_run
from api.cli.jetstream_run import Absent, NotDirect, Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed
from conf.exit_codes import EPILOG
from consumers.client import JetStreamContext, Stream
from consumers.client.direct_get import ALL
from consumers.client.errors import MessageNotFound, NothingFound

_COLUMNS = ("name", "size", "chunks", "modified", "digest")

app = typer.Typer(help="Read object stores, now or as of a point in the past.", epilog=EPILOG, no_args_is_help=True)
BucketArgument = Annotated[str, typer.Argument(help="The bucket's name.")]


class Damaged(NotDirect):
    """The chunks are not those that the object's info tells of."""


class _Object(NamedTuple):
    """An object as its info tells."""

    stream: Stream
    bucket: str
    told: dict[str, Any]

    async def chunks(self, point: str | None) -> AsyncIterator[bytes]:
        """Iterate over the content. Raises :class:`Damaged` behind the end where it is not all of it."""
        size, digest = 0, hashlib.sha256()
        subject = f"$O.{self.bucket}.C.{self.told['nuid']}"
        try:
            async for chunk in self.stream.get_batch(ALL, subject=subject, as_of=point):
                size += len(chunk.data)
                digest.update(chunk.data)
                yield chunk.data
        except NothingFound:
            pass
        wanted = str(self.told.get("digest", "")).removeprefix("SHA-256=")
        if size != self.told.get("size", 0):
            raise Damaged(
                f"{size} of {self.told.get('size', 0)} bytes are there: the others were purged. Purges erase the past, "
                f"unless the stream OBJ_{self.bucket} has the metadata silt.purge=keep"
            )
        if wanted and digest.digest() != urlsafe_b64decode(wanted + "=" * (-len(wanted) % 4)):
            raise Damaged("the content does not match the object's digest")


@app.command("get")
def get(
    bucket: BucketArgument,
    name: Annotated[str, typer.Argument(help="The object's name.")],
    *,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
) -> None:
    """Print an object's content, byte for byte; status 5 when there is none at that point."""
    point = fixed(as_of)

    async def work(js: JetStreamContext) -> None:
        found = await _find(js, bucket, name, point)
        link = found.told.get("options", {}).get("link")
        if link is not None:
            found = await _find(js, link["bucket"], link.get("name", ""), point)
        async for chunk in found.chunks(point):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    jetstream_run.run(_verb(bucket), work, server, context)


@app.command("ls")
def ls(
    bucket: BucketArgument,
    *,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List the objects of a bucket."""
    point = fixed(as_of)

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        stream = _direct(await js.get_stream(f"OBJ_{bucket}"), bucket)
        newest: dict[str, dict[str, Any]] = {}
        try:
            async for one in stream.get_batch(ALL, subject=f"$O.{bucket}.M.>", as_of=point):
                newest[one.subject] = json.loads(one.data) | {"mtime": one.timestamp.isoformat(timespec="milliseconds")}
        except NothingFound:
            pass
        there = [told for told in newest.values() if not told.get("deleted")]
        names = ("name", "size", "chunks", "mtime", "digest")
        return sorted(tuple(told.get(name, "") for name in names) for told in there)

    Output(output).table(_COLUMNS, jetstream_run.run(_verb(bucket), work, server, context))


async def _find(js: JetStreamContext, bucket: str, name: str, point: str | None) -> _Object:
    stream = _direct(await js.get_stream(f"OBJ_{bucket}"), bucket)
    subject = f"$O.{bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"
    try:
        told = json.loads((await stream.get_msg(last_for=subject, as_of=point)).data)
    except (NothingFound, MessageNotFound):
        told = {"deleted": True}
    if told.get("deleted"):
        raise Absent(f"there is no object {name!r} in bucket {bucket!r}" + (f" as of {point}" if point else ""))
    return _Object(stream, bucket, told)


def _direct(stream: Stream, bucket: str) -> Stream:
    if not stream.cached_info.config.allow_direct:
        raise NotDirect(f"this needs Direct Get: nats stream edit OBJ_{bucket} --allow-direct")
    return stream


def _verb(bucket: str) -> Verb:
    return Verb("object", f"there is no bucket {bucket!r}")
