"""The demonstration's acts: publish, publish again, compare the reads, show the files."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from rich.console import Console
from rich.table import Table

from api.demo.answers import NotAnswered, by_nats, by_rest, by_sql
from api.demo.flights import Answer, Flights, last_of_routes, load_flights
from api.demo.lag import LagMeter
from api.demo.load import IN_FLIGHT, Published, publish
from api.demo.progress import progress
from api.demo.silt_process import Addresses, SiltNotUp, silt_up
from conf.clock import Clock, SystemClock
from conf.data_location import DataLocation
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settled import SettledTable
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import StorageError
from delta_store.values.schemas import JOURNAL_FOLDER, LOG_FOLDER, MESSAGES_FOLDER

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

STREAM = "FLIGHTS"
SUBJECTS = "flights.>"
ORIGIN = "JFK"
DUPLICATE_WINDOW_SECONDS = 3600.0
SETTLE_SECONDS = 600.0
SHOWN = 5
"""Number of routes that are printed."""


class DemoFailed(RuntimeError):
    """A step of the demonstration failed, or the answers differ."""


def play(*, rows: int | None = None, keep: DataLocation | None = None) -> None:
    """Run the demonstration; raises :class:`DemoFailed`. Leaves nothing behind unless ``keep`` names a new place."""
    console = Console(width=None if os.environ.get("COLUMNS") or Console().is_terminal else 120)
    try:
        with _place(keep) as data:
            uvloop.run(_play(console, data, rows, SystemClock()))
    except ImportError as error:
        raise DemoFailed(
            f"{error}: the demonstration needs the extras: pip install 'silt[demo,server,spark]'"
        ) from None
    except (SiltNotUp, NotAnswered, StorageError, TimeoutError) as error:
        raise DemoFailed(str(error) or "it took too long") from None


@contextmanager
def _place(keep: DataLocation | None) -> Iterator[DataLocation]:
    if keep is None:
        data = Path(tempfile.mkdtemp(prefix="silt-demo-"))
        try:
            yield DataLocation(str(data))
        finally:
            shutil.rmtree(data, ignore_errors=True)
    elif keep.is_local:
        keep.folder.mkdir(parents=True, exist_ok=False)
        yield keep
    else:
        _expect(not _storage(keep, JOURNAL_FOLDER).sizes(LOG_FOLDER), f"{keep} holds a store already")
        yield keep


def _storage(data: DataLocation, table: str) -> Storage:
    return open_storage(data.table(table), data.options)


async def _play(console: Console, data: DataLocation, rows: int | None, clock: Clock) -> None:
    import nats

    console.print("Loading the flights and starting silt up ...")
    loading = asyncio.get_running_loop().run_in_executor(None, load_flights, rows)
    async with silt_up(data) as addresses:
        flights = await loading
        console.print(f"silt up is ready: {addresses.nats} {addresses.http}", highlight=False)
        client = await nats.connect(addresses.nats, pending_size=64 * 1024 * 1024)
        try:
            await _acts(console, data, flights, client, addresses, clock)
        finally:
            await client.close()
    console.print("Stopped. All answers are equal.")


async def _acts(
    console: Console, data: DataLocation, flights: Flights, client: "Client", addresses: Addresses, clock: Clock
) -> None:
    jetstream = client.jetstream(publish_async_max_pending=IN_FLIGHT + 1)
    await jetstream.add_stream(
        name=STREAM, subjects=[SUBJECTS], allow_direct=True, duplicate_window=DUPLICATE_WINDOW_SECONDS
    )
    meter = LagMeter(data, STREAM, clock=clock)
    await _publish_all(console, flights, jetstream, meter, clock)
    await _publish_again(console, flights, jetstream, clock)
    as_of = len(flights) // 2
    await _compare(console, data, flights, client, addresses, as_of)
    _show_files(console, data)


async def _publish_all(
    console: Console, flights: Flights, jetstream: "JetStreamContext", meter: LagMeter, clock: Clock
) -> None:
    total = len(flights)
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(meter.watch(total))
        with progress(console, "publishing", total) as show:

            def advance(done: int) -> None:
                meter.acked(done)
                show(done)

            published = await publish(jetstream, flights, range(total), clock=clock, advance=advance)
        _expect(published.in_order, "a message did not get the sequence of its place")
        _expect(published.duplicates == 0, f"{published.duplicates} new messages were taken for duplicates")
        ended = clock.monotonic()
        console.print(f"Published and acknowledged {total:,} flights: {_rate(published)}.", highlight=False)
        async with asyncio.timeout(SETTLE_SECONDS):
            await watch
    lag = meter.lag()
    console.print(
        f"Settled by Spark {clock.monotonic() - ended:.1f} s after the last acknowledgement; "
        f"settle lag under this load: median {lag.median:.1f} s, longest {lag.longest:.1f} s.",
        highlight=False,
    )


async def _publish_again(console: Console, flights: Flights, jetstream: "JetStreamContext", clock: Clock) -> None:
    tenth = range(len(flights) // 10)
    with progress(console, "publishing again", len(tenth)) as show:
        again = await publish(jetstream, flights, tenth, clock=clock, advance=show)
    _expect(again.duplicates == len(tenth), f"only {again.duplicates} of {len(tenth)} were found to be duplicates")
    state = (await jetstream.stream_info(STREAM)).state
    _expect(state.messages == len(flights), f"the stream holds {state.messages} messages after the duplicates")
    console.print(
        f"Published {again.messages:,} of them again: all {again.duplicates:,} found duplicate ({_rate(again)}); "
        f"the stream still holds {state.messages:,}.",
        highlight=False,
    )


async def _compare(
    console: Console, data: DataLocation, flights: Flights, client: "Client", addresses: Addresses, as_of: int
) -> None:
    """Read the last flight of each route as of a sequence, in three ways, and compare with pandas."""
    subjects = f"flights.{ORIGIN}.>"
    console.print(f"\nThe last flight of each route out of {ORIGIN} as of sequence {as_of:,}:", highlight=False)
    expected = last_of_routes(flights, ORIGIN, as_of)
    answers = {
        "NATS Direct Get": await by_nats(client, STREAM, subjects, as_of),
        "REST": await asyncio.to_thread(by_rest, addresses.http, STREAM, subjects, as_of),
        "SQL": await by_sql(data, STREAM, subjects, as_of),
    }
    table = Table("asked by", "routes", "equal to pandas", title_justify="left")
    table.add_row("pandas on the source", str(len(expected)), "")
    for way, answer in answers.items():
        table.add_row(way, str(len(answer)), "yes" if answer == expected else "NO")
    console.print(table)
    for way, answer in answers.items():
        _expect(answer == expected, f"{way} differs from pandas: {_difference(answer, expected)}")
    for subject, last in sorted(expected.items(), key=lambda item: -item[1].seq)[:SHOWN]:
        console.print(f"  {subject}  seq {last.seq:,}  {last.payload.decode()[:72]}...", highlight=False)


def _difference(answer: dict[str, Answer], expected: dict[str, Answer]) -> str:
    subject = min(
        (subject for subject in answer.keys() | expected.keys() if answer.get(subject) != expected.get(subject)),
        default="",
    )
    return f"{subject}: {answer.get(subject)} instead of {expected.get(subject)}"


def _show_files(console: Console, data: DataLocation) -> None:
    for name, reader in ((JOURNAL_FOLDER, JournalTail), (MESSAGES_FOLDER, SettledTable)):
        snapshot = reader(data.table(name), storage_options=data.options).refresh()
        stored = [one for one in _storage(data, name).walk() if one.name.endswith(".parquet")]
        size = sum(one.size for one in stored)
        console.print(
            f"{name}: version {snapshot.version:,}, {len(snapshot.files):,} live files, {len(stored):,} stored, "
            f"{size / 1024**2:.1f} MiB",
            highlight=False,
        )


def _rate(published: Published) -> str:
    return f"{published.rate:,.0f} messages/s ({published.seconds:.1f} s)"


def _expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001  # reads as a sentence
    if not holds:
        raise DemoFailed(otherwise)
