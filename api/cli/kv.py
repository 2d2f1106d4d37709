"""``silt kv get|ls|history``: key-value buckets now, and at any point within the history horizon."""

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer

from api.cli import jetstream_run
from api.cli.jetstream_run import Absent, NotDirect, Verb
from api.cli.options import ContextOption, ServerOption
from api.cli.output import Format, Output, OutputOption
from api.cli.points import AsOfOption, fixed, point_option
from conf.exit_codes import EPILOG
from conf.limits import MULTI_LAST_MORE_SUBJECTS_MAX
from consumers.client import (
    DeliverPolicy,
    JetStreamContext,
    OrderedOptions,
    StoredMessage,
    Stream,
)
from consumers.client.errors import MessageNotFound, NoResponders, NothingFound
from delta_store.values.as_of import AsOf

_ENTRY = ("key", "revision", "operation", "created", "value")
_STALLED_SECONDS = 5.0
_GONE = {"DEL", "PURGE"}
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")

app = typer.Typer(help="Read key-value buckets, now or as of a point in the past.", epilog=EPILOG, no_args_is_help=True)
BucketArgument = Annotated[str, typer.Argument(help="The bucket's name.")]
KeyArgument = Annotated[str, typer.Argument(help="The key.")]
T = TypeVar("T")


@app.command("get")
def get(
    bucket: BucketArgument,
    key: KeyArgument,
    *,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
) -> None:
    """Print a key's value, byte for byte; status 5 when it has none."""
    point = point_option(as_of)
    _check(key)

    async def work(js: JetStreamContext) -> bytes:
        stream, subject = await js.get_stream(f"KV_{bucket}"), f"$KV.{bucket}.{key}"
        if as_of and not stream.cached_info.config.allow_direct:
            _refuse_ahead(stream, point)
            found = await _newest(stream, subject, fixed(as_of))
        else:
            found = await (_then(stream, subject, point) if as_of else _newest(stream, subject))
        if not found or operation(found[0]) in _GONE:
            raise Absent(f"{key!r} has no value in bucket {bucket!r}" + (f" as of {as_of}" if as_of else ""))
        return found[0].data

    sys.stdout.buffer.write(_run(work, bucket, server, context))
    sys.stdout.buffer.flush()


@app.command("ls")
def ls(
    bucket: BucketArgument,
    filter_: Annotated[
        str, typer.Argument(metavar="[FILTER]", help="Only keys that match; wildcards as in subjects.")
    ] = ">",
    *,
    as_of: AsOfOption = None,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List the keys that have a value, with their values; as of a point, at most 100,000 keys may match."""
    point = point_option(as_of)

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        stream, subject = await js.get_stream(f"KV_{bucket}"), f"$KV.{bucket}.{filter_}"
        if as_of:
            found = await _then(stream, subject, point)
        else:
            newest = {one.subject: one for one in await _stored(stream, subject, DeliverPolicy.LAST_PER_SUBJECT)}
            found = list(newest.values())
        return sorted(_entry(bucket, one) for one in found if operation(one) not in _GONE)

    Output(output).table(_ENTRY, _run(work, bucket, server, context))


@app.command("history")
def history(
    bucket: BucketArgument,
    key: KeyArgument,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """List what the bucket still keeps of a key: values, deletions and purges, oldest first."""
    _check(key)

    async def work(js: JetStreamContext) -> list[tuple[Any, ...]]:
        stream = await js.get_stream(f"KV_{bucket}")
        found = await _stored(stream, f"$KV.{bucket}.{key}", DeliverPolicy.ALL)
        return [_entry(bucket, one) for one in found]

    Output(output).table(_ENTRY, _run(work, bucket, server, context))


def operation(message: StoredMessage) -> str:
    """Return ``PUT``, ``DEL`` or ``PURGE``; a marker left by a limit counts as ``PURGE``."""
    if "Nats-Marker-Reason" in message.headers:
        return "PURGE"
    return message.headers.get("KV-Operation", "PUT")


async def _newest(stream: Stream, subject: str, as_of: str | None = None) -> list[StoredMessage]:
    """Return a subject's last message, or nothing."""
    try:
        return [await stream.get_msg(last_for=subject, as_of=as_of)]
    except (NothingFound, MessageNotFound):
        return []


async def _stored(stream: Stream, subject: str, policy: DeliverPolicy) -> list[StoredMessage]:
    """Return the messages of matching subjects, oldest first; read by a consumer, which every bucket allows."""
    consumer = stream.ordered_consumer(OrderedOptions(filter_subjects=[subject], deliver_policy=policy))
    found: list[StoredMessage] = []
    async with consumer.consume() as messages:
        info = await consumer.info()
        pending = (info.num_pending or 0) + (info.delivered.consumer_seq if info.delivered else 0)
        while pending:
            try:
                async with asyncio.timeout(_STALLED_SECONDS):
                    message = await anext(messages)
            except TimeoutError:  # the messages still to come may have been removed meanwhile
                pending = (await consumer.info()).num_pending or 0
                continue
            place = message.metadata
            headers = message.headers
            found.append(
                StoredMessage(stream.name, message.subject, place.stream_seq, place.timestamp_ns, headers, message.data)
            )
            pending = place.pending
    return found


async def _then(stream: Stream, subject: str, point: AsOf) -> list[StoredMessage]:
    """Return the last message of each matching subject at the point, if any."""
    _refuse_ahead(stream, point)
    try:
        batch = stream.get_last_msgs_for(
            [subject],
            up_to_seq=point.seq,
            up_to_time=point.time,
            as_of=point.text if point.cut else None,
            max_subjects=MULTI_LAST_MORE_SUBJECTS_MAX,
        )
        return await batch.all()
    except NothingFound:
        return []
    except NoResponders:
        raise NotDirect(
            f"reads of the past need Direct Get, which {stream.name} does not allow: "
            f"nats stream edit {stream.name} --allow-direct"
        ) from None


def _refuse_ahead(stream: Stream, point: AsOf) -> None:
    """Raise :class:`Absent` for a revision that nobody knows yet."""
    last_seq = stream.cached_info.state.last_seq
    if point.seq is not None and point.seq > last_seq:
        raise Absent(f"revision {point.seq} is still to come: the bucket is at {last_seq}")


def _check(key: str) -> None:
    """Refuse an invalid key, such as one with wildcards."""
    if not _KEY.fullmatch(key) or key.startswith(".") or key.endswith("."):
        raise typer.BadParameter(f"{key!r} is no key", param_hint="key")


def _entry(bucket: str, message: StoredMessage) -> tuple[Any, ...]:
    key = message.subject.removeprefix(f"$KV.{bucket}.")
    created = datetime.fromtimestamp(message.timestamp_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return key, message.seq, operation(message), created, message.data.decode(errors="replace")


def _run(
    work: Callable[[JetStreamContext], Coroutine[Any, Any, T]], bucket: str, server: str | None, context: str | None
) -> T:
    return jetstream_run.run(Verb("kv", f"there is no bucket {bucket!r}"), work, server, context)
